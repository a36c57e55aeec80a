package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// asProgram makes the test binary the program itself, for tests that kill it.
const asProgram = "EDGESPAN_TEST_AS_CONTROLLER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := run(ctx, streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(code)
}
