package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"edgespan/cmd/term"
)

// asProgram makes the test binary the program itself, for tests that kill it.
const asProgram = "EDGESPAN_TEST_AS_CONTROLLER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		if err := os.Setenv(asProgram, "1"); err != nil { // for all that they start: they may run side by side
			panic(err)
		}
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := run(ctx, term.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(code)
}
