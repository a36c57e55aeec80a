package firewall

import (
	"context"
	"testing"
	"time"

	"edgespan/platform/proc"
)

func TestNobodyWaitsForTheQuestionOfAnother(t *testing.T) {
	calls := fakeIptables(t, "exec sleep 60")
	f := New(proc.New(""), nil, nil)
	ctx, end := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() { defer close(asked); f.generation(ctx) }()
	for calls() == 0 {
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	reported := make(chan struct{})
	go func() { defer close(reported); f.generation(short) }()
	select {
	case <-reported:
	case <-time.After(10 * time.Second):
		t.Error("it waits for the question of another")
	}
	end()
	<-asked
}
