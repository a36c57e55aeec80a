package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/stateloop/nodestate"
)

// applying applies a document in the background and returns a channel for the result.
func (r *rig) applying(doc string) <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := r.node.Apply(context.Background(), []byte(doc), nodeapi.ApplyOptions{})
		answer <- err
	}()
	r.settle(0)
	return answer
}

// waits fails the test if the result has already arrived.
func (r *rig) waits(answer <-chan error) {
	r.Helper()
	select {
	case err := <-answer:
		r.Fatalf("it was answered with %v", err)
	default:
	}
}

func TestAHungDiskStopsTheConfigActorFromNothingElse(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply("sysParams: {watchdogSeconds: 5}\n" + doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		free := make(chan struct{})
		r.files.Block(free)
		first := r.applying(doc(2, 0))
		r.settle(time.Second)
		second := r.applying(doc(3, 0))
		if _, err := r.node.Apply(context.Background(), []byte("nonsense: 1\n"), nodeapi.ApplyOptions{}); err == nil ||
			errors.Is(err, rest.ErrBusy) {
			t.Errorf("a faulty document is answered with %v, want its faults", err)
		}
		r.node.Reload()
		r.settle(8900 * time.Millisecond)
		r.waits(first)
		if got := len(r.node.Topics().NetworkConfig.List("")); got != 1 {
			t.Errorf("%d networks are published of a config that is not stored", got)
		}
		r.settle(200 * time.Millisecond)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "the disk has not answered for 10s") {
			t.Errorf("the apply under way is answered with %v", err)
		}
		r.waits(second)
		r.settle(time.Second)
		if err := <-second; !errors.Is(err, rest.ErrBusy) || !strings.Contains(err.Error(), "try again") {
			t.Errorf("the apply that waits is answered with %v", err)
		}
		before := r.fed()
		r.settle(20 * time.Second)
		if n := r.fed() - before; n < 19 {
			t.Errorf("the watchdog was fed %d times in 20s", n)
		}
		close(free)
		r.settle(0)
		r.ready(time.Second, "ni/"+niID(2))
		if got := len(r.node.Topics().NetworkConfig.List("")); got != 2 {
			t.Errorf("%d networks are published, want those of the document that was stored", got)
		}
		r.apply(doc(3, 0))
		r.ready(time.Second, "ni/"+niID(3))
		if s, _ := r.node.Topics().Source.Get("", "node"); s.Generation != 3 || s.Error != "" {
			t.Errorf("the source is %+v, want generation 3 and no error", s)
		}
	})
}

func TestAConfigThatCanNotBeStoredChangesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.files.Fail(errors.New("no space left"))
		if _, err := r.node.Apply(context.Background(), []byte(doc(2, 0)), nodeapi.ApplyOptions{}); err == nil ||
			err.Error() != "store the config: no space left" {
			t.Errorf("apply answers %v", err)
		}
		r.settle(time.Second)
		if got := len(r.node.Topics().NetworkConfig.List("")); got != 1 {
			t.Errorf("%d networks are published, want the one before", got)
		}
		// A start with the new file runs the previous config too: the new one can't be stored.
		r.files.SetConfig(doc(2, 0))
		r.stop()
		r.start()
		r.ready(time.Second, "ni/"+niID(1))
		if got := len(r.node.Topics().NetworkConfig.List("")); got != 1 {
			t.Errorf("%d networks are published after a restart, want the one before", got)
		}
		r.files.Fail(nil)
		r.node.Reload()
		r.settle(0)
		r.ready(time.Second, "ni/"+niID(2))
	})
}

func TestAppliesAreStoredOneByOneInOrder(t *testing.T) {
	onRig(t, func(r *rig) {
		free := make(chan struct{})
		r.files.Block(free)
		var answers []<-chan error
		for n := 1; n <= 3; n++ {
			answers = append(answers, r.applying(doc(n, 0)))
		}
		close(free)
		for n, a := range answers {
			if err := <-a; err != nil {
				t.Errorf("apply %d: %v", n+1, err)
			}
		}
		r.settle(0)
		s, _ := r.node.Topics().Source.Get("", "node")
		if got := len(r.node.Topics().NetworkConfig.List("")); got != 3 || s.Generation != 3 {
			t.Errorf("%d networks at generation %d, want the last document's 3 at 3", got, s.Generation)
		}
		if got := r.stored(); got != canonical(t, doc(3, 0)) {
			t.Errorf("stored is %q", got)
		}
	})
}

// sourceIs fails the test unless `get config` shows these values.
func (r *rig) sourceIs(when, source string, generation uint64, fault string) nodeapi.SourceStatus {
	r.Helper()
	list, err := r.node.List(context.Background(), "config")
	if err != nil || len(list) != 1 || list[0].ID != "node" {
		r.Fatalf("%s: the configs are %+v, %v; want one", when, list, err)
	}
	s := list[0].Status.(nodeapi.SourceStatus)
	if s.Source != source || s.Generation != generation || fault == "" && s.Error != "" ||
		!strings.Contains(s.Error, fault) {
		r.Errorf("%s: the source is %+v, want %s at %d with error %q", when, s, source, generation, fault)
	}
	return s
}

func TestTheSourceOfTheConfigIsShown(t *testing.T) {
	const good, bad = "sysParams: {logLevel: warn}\n", "sysParams: {logLevel: loud}\n"
	onRig(t, func(r *rig) {
		hup := func(text string) {
			r.files.SetConfig(text)
			r.node.Reload()
			r.settle(0)
		}
		r.sourceIs("at first", "base", 0, "")
		r.apply("{}")
		if s := r.sourceIs("after an apply", "apply", 1, ""); s.MD5 != "99914b932bd37a50b983c5e7c90ae93b" ||
			s.FileDigest != "" {
			t.Errorf("the source of {} is %+v", s)
		}
		hup(bad)
		r.sourceIs("after a bad file", "apply", 1, "apply the config file node.yaml: sysParams.logLevel")
		hup(good)
		if s := r.sourceIs("after a good file", "file", 2, ""); s.FileDigest != nodestate.Digest([]byte(good)) ||
			s.MD5 == "" {
			t.Errorf("the source of the file is %+v", s)
		}
		hup(bad)
		r.stop()
		r.start()
		r.sourceIs("after a start on a bad file", "file", 2, "sysParams.logLevel")
		hup(good)
		r.sourceIs("after the file is what runs again", "file", 2, "")
		hup(bad)
		r.apply("{}")
		r.sourceIs("after an apply beside a bad file", "apply", 3, "")
		r.files.SetConfig(good) // as recorded, and not what runs
		r.stop()
		r.start()
		if s := r.sourceIs("after a start on the recorded file", "apply", 3,
			""); s.FileDigest != nodestate.Digest([]byte(good)) {
			t.Errorf("the source is %+v, want the digest of the file applied last", s)
		}
	})
}
