package main

import (
	"fmt"
	"io"
	"os"
)

// streams is all that the command line has of its surroundings, so that a test gives
// it other ones.
type streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Color    bool // Out is a terminal that wants colours
}

// setting is a value by the precedence flag > environment > default.
func (s streams) setting(flag, env, fallback string) string {
	if flag != "" {
		return flag
	}
	if v := s.Env(env); v != "" {
		return v
	}
	return fallback
}

// say writes one message for a person.
func (s streams) say(format string, args ...any) { fmt.Fprintf(s.Err, format+"\n", args...) }

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
