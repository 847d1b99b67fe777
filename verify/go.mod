module github.com/fusebox-go/fusebox/verify

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/fusebox-go/fusebox v0.0.0
	pgregory.net/rapid v1.3.0
)

replace github.com/fusebox-go/fusebox => ../
