package bulkhead

import "time"

// waiter is a call that waits for a place.
type waiter struct {
	next, prev *waiter
	given      chan struct{} // of capacity 1: sent to once, with the place
	timer      *time.Timer
}

// queue holds the waiters, first come first. Anyone may leave it in constant
// time.
type queue struct {
	first, last *waiter
	len         int
}

func (q *queue) push(w *waiter) {
	w.prev = q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.len++
}

func (q *queue) remove(w *waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	q.len--
}
