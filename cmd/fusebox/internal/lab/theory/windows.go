package theory

// Burst is a run of failures among calls that come one a tick and succeed else.
type Burst struct {
	From, Length int // ticks
	MinCalls     int
	Rate         float64 // from which on the failures among the calls trip
}

func (b Burst) fails(tick int) bool { return tick >= b.From && tick < b.From+b.Length }

// TripsTumbling reports whether a window trips that is emptied every so many
// ticks, from tick 0 on.
func (b Burst) TripsTumbling(window int) bool {
	return b.trips(func(tick int) (oldest int) { return tick - tick%window })
}

// TripsRolling reports whether a window trips that moves on by one bucket at a
// time.
func (b Burst) TripsRolling(buckets, ticksInBucket int) bool {
	return b.trips(func(tick int) (oldest int) {
		return max(0, (tick/ticksInBucket-buckets+1)*ticksInBucket)
	})
}

// trips counts anew, at every failure, what is in the window.
func (b Burst) trips(oldest func(tick int) int) bool {
	for tick := b.From; tick < b.From+b.Length; tick++ {
		calls, failures := 0, 0
		for t := oldest(tick); t <= tick; t++ {
			calls++
			if b.fails(t) {
				failures++
			}
		}
		if calls >= b.MinCalls && float64(failures) >= b.Rate*float64(calls) {
			return true
		}
	}
	return false
}
