package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf/action"
)

// steward is a controller that confirms a config that has settled and is not worse.
type steward struct {
	r    *rig
	mu   sync.Mutex
	said []nodeproto.FromNode
	late time.Duration // after which it confirms
}

func (s *steward) Send(m nodeproto.FromNode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, m)
	r, ok := m.(nodeproto.Report)
	if ok && r.Pending != nil && r.Pending.Settled && len(r.Pending.Worse) == 0 {
		a := s.r.node.Agent()
		time.AfterFunc(max(s.late, time.Millisecond), func() { a.Received(nodeproto.Confirm{Generation: r.Pending.Generation}) })
	}
	return nil
}

func (s *steward) report() (last nodeproto.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.said {
		if r, ok := m.(nodeproto.Report); ok {
			last = r
		}
	}
	return last
}

func (s *steward) outcomes() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.said {
		if r, ok := m.(nodeproto.Result); ok {
			out = append(out, r.Outcome.String())
		}
	}
	return out
}

// push sends a document as a controller does.
func (r *rig) push(attempt uint64, text string) {
	r.Helper()
	o, faults := core.ReadObject([]byte(text))
	if faults != nil {
		r.Fatal(faults)
	}
	r.node.Agent().Received(nodeproto.Push{
		Attempt: attempt, Generation: core.Generation{Authority: "c", Counter: attempt}, MD5: core.MD5(o),
		Document: core.AppendCanonical(nil, o), Managed: true,
	})
	r.settle(0)
}

func good(r nodeproto.Report, name string) bool {
	return slices.ContainsFunc(r.Health, func(h nodeproto.HealthReport) bool { return h.Name == name && h.Good })
}

func TestAPushIsAppliedAndOneThatBreaksTheUplinkComesBack(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		s := &steward{r: r}
		r.node.Agent().Up(s)
		vendor := doc(1, 1) + "vendorParams: {x: 1}\nsysParams: {managedConfig: true, theirs: 2}\n"
		r.push(1, vendor)
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1))
		r.settle(2 * time.Second)
		app := "adapter/" + appID(1) + "/0"
		rep := s.report()
		if rep.Pending != nil || rep.Generation.Counter != 1 || !rep.Settled || !good(rep, "ni/"+niID(1)) ||
			!good(rep, app) || !good(rep, "port/wan") {
			t.Errorf("confirmed it reports %+v", rep)
		}
		if len(rep.Parameters) != 2 || rep.Parameters[0].ID != app || rep.Parameters[0].Generation != rep.Generation ||
			rep.Parameters[1].State != "Present" {
			t.Errorf("its parameters are %+v", rep.Parameters)
		}
		if _, err := r.node.Apply(context.Background(), []byte(doc(2, 0)), nodeapi.ApplyOptions{}); !errors.Is(err,
			rest.ErrConflict) {
			t.Errorf("an apply is answered with %v", err)
		}
		r.push(2, strings.Replace(vendor, "uplink0", "uplink9", 1))
		r.settle(40 * time.Second)
		if rep = s.report(); rep.Pending == nil || !slices.Contains(rep.Pending.Worse, "port/wan") || good(rep, "port/wan") {
			t.Errorf("with a broken uplink it reports %+v, pending %+v", rep.Health, rep.Pending)
		}
		r.settle(90 * time.Second)
		if p, _ := r.node.Topics().PortConfig.Get("", "wan"); p.IfName != "uplink0" {
			t.Errorf("after its time the uplink is %+v", p)
		}
		if got := s.outcomes(); !slices.Equal(got, []string{"accepted", "applied", "accepted", "applied", "unhealthy"}) {
			t.Errorf("the results are %q", got)
		}
		if rep = s.report(); rep.Source != "rollback" || rep.Restores.Counter != 1 || !good(rep, "port/wan") {
			t.Errorf("undone it reports %+v", rep)
		}
		src, _ := r.node.Topics().Source.Get("", "node")
		if src.Source != "rollback" || src.Generation != 3 {
			t.Errorf("the source is %+v, want journal number 3", src)
		}
		p, err := r.node.pending(context.Background())
		if err != nil || p.Pending || !strings.HasPrefix(p.Undone, "c:2: unhealthy: good before and bad now: ") ||
			!strings.Contains(p.Undone, "port/wan") || !p.Managed || !p.Linked {
			t.Errorf("get pending says %+v, %v", p, err)
		}
	})
}

func TestTheActionsOfANode(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		var looks []observeAgain
		run := &runner{r.node.d, &r.ran, func(l observeAgain) { looks = append(looks, l) }}
		ctx := context.Background()
		document := core.Object{"sysParams": core.Object{"logLevel": "error"}, "vendor": "x"}
		for _, do := range []action.Do{
			{Kind: action.Reconcile},
			{Kind: action.Nameservers},
			{Kind: action.LogLevel},
			{Kind: action.Tunnel},
			{Kind: action.Unit, Unit: "kea.service", Verb: "reload"},
			{Kind: action.Command, Argv: []string{"/bin/x", "y z"}},
		} {
			if err := run.Do(ctx, do, document); err != nil {
				t.Errorf("%v: %v", do, err)
			}
		}
		if err := run.Do(ctx, action.Do{Kind: action.Unsupported}, document); err == nil {
			t.Error("what nobody has something for is done")
		}
		if err := run.Restart(ctx, action.NameReboot); err != nil {
			t.Error(err)
		}
		if err := run.Restart(ctx, action.NameRestart); err != nil {
			t.Error(err)
		}
		want := []string{"systemctl reload kea.service", "/bin/x y z", "systemctl reboot"}
		if !slices.Equal(r.ran.ran, want) || r.ran.ends != 1 ||
			!slices.Equal(looks, []observeAgain{{}, {}, {tunnels: true}}) ||
			*r.level.Load() != "error" {
			t.Errorf("it ran %q, ended %d times, looked at %v, log level %s", r.ran.ran, r.ran.ends, looks, *r.level.Load())
		}
		r.ran.failed = errors.New("exit status 1")
		if err := run.Do(ctx, action.Do{Kind: action.Command, Argv: []string{"/bin/x"}}, document); err == nil {
			t.Error("a command that fails is done")
		}
	})
}
