// Command edgespan is the edge daemon and its command line. It owns the wiring:
// flags, environment, which implementation is used, exit codes and how an answer looks
// on a terminal.
//
// It never judges a config or a network: the daemon does, and this program shows what
// it said. start.go is the only place that puts platform and actors together.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the Makefile from git describe.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what hears none: an offline command that computes
	code := run(ctx, osStreams(), os.Args[1:])
	stop()
	os.Exit(code)
}

// osStreams is the process's own surroundings.
func osStreams() streams {
	return streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Env:   os.Getenv,
		Color: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// isTerminal is the test of a character device; /dev/null is one too, and nobody minds
// colours there.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
