module github.com/fusebox-go/fusebox/examples

go 1.25.0

require (
	github.com/fusebox-go/fusebox v0.0.0
	github.com/fusebox-go/fusebox/fuseboxgrpc v0.0.0
	github.com/fusebox-go/fusebox/fuseboxprom v0.0.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/go-chi/chi/v5 v5.5.0
	github.com/prometheus/client_golang v1.24.1
	github.com/redis/go-redis/v9 v9.22.0
	golang.org/x/time v0.15.0
	google.golang.org/grpc v1.84.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace (
	github.com/fusebox-go/fusebox => ../
	github.com/fusebox-go/fusebox/fuseboxgrpc => ../fuseboxgrpc
	github.com/fusebox-go/fusebox/fuseboxprom => ../fuseboxprom
)
