package clitest

import (
	"context"

	"edgespan/config/httpapi"
)

// looker is the part of a fake daemon that answers why; nil functions answer nothing.
type looker struct {
	Explains func(kind, id string) (httpapi.Explanation, error)
	DiffOf   func(of string) ([]httpapi.Difference, error)
	Happens  []httpapi.Event // told one by one; with Follow the stream then stays open
	Stream   []httpapi.Seen
	Findings []httpapi.Finding
	Asks     chan httpapi.EventQuery // what Events was asked, if there is room
}

func (l *looker) Explain(_ context.Context, kind, id string) (httpapi.Explanation, error) {
	return l.Explains(kind, id)
}

func (l *looker) Diff(_ context.Context, of string) ([]httpapi.Difference, error) {
	return l.DiffOf(of)
}

func (l *looker) Doctor(context.Context) ([]httpapi.Finding, error) { return l.Findings, nil }

func (l *looker) Events(ctx context.Context, q httpapi.EventQuery, emit func(httpapi.Event) error) error {
	select {
	case l.Asks <- q:
	default:
	}
	for _, e := range l.Happens {
		if err := emit(e); err != nil {
			return err
		}
	}
	if q.Follow {
		<-ctx.Done()
	}
	return nil
}

func (l *looker) Watch(ctx context.Context, _ []string, emit func(httpapi.Seen) error) error {
	for _, s := range l.Stream {
		if err := emit(s); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
