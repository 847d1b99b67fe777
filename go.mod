module github.com/fusebox-go/fusebox

go 1.25.0
