module kais.io/e2e/distroless

go 1.22
