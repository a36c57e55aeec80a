package term

import (
	"fmt"
	"io"
	"os"
)

// Streams is all that the command line has of its surroundings, so that a test gives
// it other ones.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Color    bool // Out is a terminal that wants colours
}

// Setting is a value by the precedence flag > environment > default.
func (s Streams) Setting(flag, env, fallback string) string {
	if flag != "" {
		return flag
	}
	if v := s.Env(env); v != "" {
		return v
	}
	return fallback
}

// Printf writes one message for a person.
func (s Streams) Printf(format string, args ...any) { fmt.Fprintf(s.Err, format+"\n", args...) }

// OS is the process's own surroundings.
func OS() Streams {
	return Streams{
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
