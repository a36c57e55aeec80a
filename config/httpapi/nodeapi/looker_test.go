package nodeapi

import (
	"context"
)

// looker is the part of a fake daemon that answers reads; nil functions answer nothing.
type looker struct {
	explain func(kind, id string) (Explanation, error)
	flow    func(q FlowQuery) (FlowVerdict, error)
	rules   func(app, index string) (AppRules, error)
	diff    func(of string) ([]Difference, error)
	happens []Event // sent one by one; with Follow the stream then stays open
	stream  []Observed
	logged  []FlowRecord
	doctor  []Finding
	asks    chan EventQuery // the queries of Events, if there is room
}

func (l *looker) Explain(_ context.Context, kind, id string) (Explanation, error) {
	return l.explain(kind, id)
}

func (l *looker) ExplainFlow(_ context.Context, q FlowQuery) (FlowVerdict, error) { return l.flow(q) }

func (l *looker) Rules(_ context.Context, app, index string) (AppRules, error) {
	return l.rules(app, index)
}

func (l *looker) Diff(_ context.Context, of string) ([]Difference, error) { return l.diff(of) }

func (l *looker) Doctor(context.Context) ([]Finding, error) { return l.doctor, nil }

func (l *looker) Events(ctx context.Context, q EventQuery, emit func(Event) error) error {
	select {
	case l.asks <- q:
	default:
	}
	for _, e := range l.happens {
		if err := emit(e); err != nil {
			return err
		}
	}
	if q.Follow {
		<-ctx.Done()
	}
	return nil
}

func (l *looker) FlowLog(ctx context.Context, q FlowLogQuery, emit func(FlowRecord) error) error {
	for _, r := range l.logged {
		if !q.Selects(r) {
			continue
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	if q.Follow {
		<-ctx.Done()
	}
	return nil
}

func (l *looker) Watch(ctx context.Context, _ []string, emit func(Observed) error) error {
	for _, s := range l.stream {
		if err := emit(s); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
