package fuseboxotel_test

import (
	"context"
	"errors"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxotel"
)

func ExampleMetrics() {
	// A program gets its meter from otel.Meter("…").
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("example")

	payments := fusebox.New("payments", fusebox.Config{})
	var metrics fuseboxotel.Metrics
	metrics.Add(payments)
	if _, err := metrics.Register(meter); err != nil {
		fmt.Println(err)
		return
	}
	payments.Do(context.Background(), func(context.Context) error { return errors.New("down") })

	var data metricdata.ResourceMetrics
	reader.Collect(context.Background(), &data)
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "fusebox_window_failure_rate" {
			point := m.Data.(metricdata.Gauge[float64]).DataPoints[0]
			fmt.Println(point.Attributes.ToSlice()[0].Value.AsString(), point.Value)
		}
	}
	// Output: payments 1
}

func ExampleMetrics_Register() {
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("example")
	var metrics fuseboxotel.Metrics // which two parts of a program share
	metrics.Add(fusebox.New("payments", fusebox.Config{}))
	one, err := metrics.Register(meter)
	fmt.Println(err)
	other, err := metrics.Register(meter)
	fmt.Println(err)

	shown := func() bool {
		var data metricdata.ResourceMetrics
		reader.Collect(context.Background(), &data)
		return len(data.ScopeMetrics) > 0
	}
	one.Unregister()
	fmt.Println(shown())
	other.Unregister()
	fmt.Println(shown())
	// Output:
	// <nil>
	// <nil>
	// true
	// false
}

func ExampleTrace() {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("example")

	payments := fusebox.New("payments", fusebox.Config{Consecutive: 1})
	payments.Do(context.Background(), func(context.Context) error { return errors.New("down") })

	ctx, span := tracer.Start(context.Background(), "order")
	err := fuseboxotel.Trace(payments).Do(ctx, func(context.Context) error { return nil })
	span.End()

	fmt.Println(errors.Is(err, fusebox.ErrOpen))
	event := spans.Ended()[0].Events()[0]
	fmt.Println(event.Name)
	for _, a := range event.Attributes[:3] {
		fmt.Println(a.Key, a.Value.AsString())
	}
	// Output:
	// true
	// fusebox.rejected
	// fusebox.breaker payments
	// fusebox.state open
	// fusebox.cause consecutive
}
