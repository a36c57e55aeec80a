package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// Failed types an error below HTTP of a client that asked the controller at a URL: ErrTimeout or
// ErrUnreachable, or that the caller gave up.
func Failed(base string, err error) error {
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return &failure{fmt.Sprintf("ask %s: no answer in time", base), ErrTimeout}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return &failure{fmt.Sprintf("controller not reachable at %s: %s", base, err), ErrUnreachable}
}

// failure speaks of a controller where config/httpapi's sentinels speak of a daemon.
type failure struct {
	text string
	kind error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.kind }
