module github.com/fusebox-go/fusebox/examples

go 1.25.0

require github.com/fusebox-go/fusebox v0.0.0

require golang.org/x/time v0.15.0

replace github.com/fusebox-go/fusebox => ../
