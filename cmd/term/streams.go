package term

import (
	"fmt"
	"io"
	"os"
)

// Streams is the environment of a command line: tests replace it.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Color    bool // Out is a terminal that shows colours
}

// Setting returns a value by the precedence flag > environment > default.
func (s Streams) Setting(flag, env, fallback string) string {
	if flag != "" {
		return flag
	}
	if v := s.Env(env); v != "" {
		return v
	}
	return fallback
}

// Printf prints a message for people on Err.
func (s Streams) Printf(format string, args ...any) { fmt.Fprintf(s.Err, format+"\n", args...) }

// OS returns the streams of the process.
func OS() Streams {
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Env:   os.Getenv,
		Color: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// isTerminal reports whether f is a character device. That includes /dev/null, where colours do no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
