package clitest

import (
	"context"

	"edgespan/config/httpapi/nodeapi"
)

// looker is the part of a fake daemon that answers explain, diff, events and doctor.
type looker struct {
	Explains func(kind, id string) (nodeapi.Explanation, error)
	Flow     func(q nodeapi.FlowQuery) (nodeapi.FlowVerdict, error)
	Rule     func(app, index string) (nodeapi.AppRules, error)
	// FlowChanges are those of a plan.
	FlowChanges nodeapi.FlowChanges
	DiffOf      func(of string) ([]nodeapi.Difference, error)
	Happens     []nodeapi.Event // sent one by one; with Follow the stream then remains open
	Stream      []nodeapi.Observed
	Logged      []nodeapi.FlowRecord // as Happens, of the flow log
	Findings    []nodeapi.Finding
	Asks        chan nodeapi.EventQuery // receives the queries of Events, if there is room
}

func (l *looker) Explain(_ context.Context, kind, id string) (nodeapi.Explanation, error) {
	return l.Explains(kind, id)
}

func (l *looker) ExplainFlow(_ context.Context, q nodeapi.FlowQuery) (nodeapi.FlowVerdict, error) {
	return l.Flow(q)
}

func (l *looker) Rules(_ context.Context, app, index string) (nodeapi.AppRules, error) {
	return l.Rule(app, index)
}

func (l *looker) Diff(_ context.Context, of string) ([]nodeapi.Difference, error) {
	return l.DiffOf(of)
}

func (l *looker) Doctor(context.Context) ([]nodeapi.Finding, error) { return l.Findings, nil }

func (l *looker) Events(ctx context.Context, q nodeapi.EventQuery, emit func(nodeapi.Event) error) error {
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

func (l *looker) FlowLog(ctx context.Context, q nodeapi.FlowLogQuery, emit func(nodeapi.FlowRecord) error) error {
	for _, r := range l.Logged {
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

func (l *looker) Watch(ctx context.Context, _ []string, emit func(nodeapi.Observed) error) error {
	for _, s := range l.Stream {
		if err := emit(s); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
