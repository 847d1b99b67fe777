// Package fuseboxotel shows breakers, and the policies around them, to
// OpenTelemetry: their metrics through a metric.Meter, and what they reject in
// the spans of a trace. It needs the API of OpenTelemetry only, not the SDK.
//
//	var metrics fuseboxotel.Metrics
//	metrics.Add(payments)       // a *fusebox.Breaker
//	metrics.AddRegistry("", &hosts) // a *fusebox.Registry: all its breakers, those to come too
//	_, err := metrics.Register(otel.Meter("github.com/me/shop"))
//
//	err = fuseboxotel.Trace(payments).Do(ctx, charge)
//
// # Names
//
// Metrics and attributes have the names that package fuseboxmetrics lists, the
// same as in Prometheus, dashboards and alerts included. Units are those of UCUM ("s", "{call}");
// fractions have none, since an exporter would put it into the name. Counters
// are observable counters of float64, gauges observable gauges.
//
// # Cardinality
//
// The SDK keeps at most 2,000 attribute sets of a metric, unless told otherwise,
// and puts those beyond into one of attribute otel.metric.overflow. A breaker has
// 36 of fusebox_transitions_total: more than 55 breakers need a view that drops
// attributes, or, by the SDK's WithCardinalityLimit, a limit above 36 times their
// number.
//
// A registry that drops a breaker and makes one of the same key anew begins its
// counters at 0. With cumulative temporality that is a restart, as for any
// process; with delta temporality the SDK makes a negative value of it.
package fuseboxotel
