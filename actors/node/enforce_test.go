package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

// observing is doc with observe of every adapter.
func observing(nets, apps int) string {
	return strings.ReplaceAll(doc(nets, apps), "0: {networkInstance", "0: {observe: true, networkInstance")
}

// observes reports whether the first adapter of an app observes.
func (r *rig) observes(app int) bool {
	return r.node.d.currentConfig().Apps[uuid.MustParse(appID(app))].Adapters[0].Observe
}

func (r *rig) enforce(app int, index string, how nodeapi.EnforceOptions) (nodeapi.Enforced, error) {
	r.Helper()
	x, err := r.node.Enforce(context.Background(), appID(app), index, how)
	r.settle(0)
	return x, err
}

func TestEnforceAppliesTheConfigWithoutObserve(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(observing(1, 2))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		shown, err := r.enforce(1, "", nodeapi.EnforceOptions{DryRun: true})
		if err != nil || !slices.Equal(shown.Adapters, []string{appID(1) + "/0"}) || len(shown.Flows.List) == 0 || !r.observes(1) {
			t.Fatalf("a dry run: %+v, %v", shown, err)
		}
		for _, f := range shown.Flows.List {
			if f.Verdict != "deny" {
				t.Errorf("%+v", f)
			}
		}
		how := nodeapi.EnforceOptions{Confirm: time.Minute, Replaces: shown.Config, By: "ann"}
		x, err := r.enforce(1, "0", how)
		if err != nil || r.observes(1) || !r.observes(2) || len(x.Warnings) > 0 {
			t.Fatalf("%+v, %v", x, err)
		}
		r.settle(2 * time.Minute) // without a confirmation
		if !r.observes(1) {
			t.Error("the config was not confirmed, and the rules are still enforced")
		}
		if _, err := r.enforce(1, "0", how); !errors.Is(err, rest.ErrConflict) || !r.observes(1) {
			t.Errorf("what was shown has been undone since: %v", err)
		}
		if _, err := r.enforce(1, "", nodeapi.EnforceOptions{Confirm: time.Minute}); err != nil {
			t.Error(err)
		}
		r.settle(time.Second)
		if err := r.node.Confirm(context.Background()); err != nil {
			t.Error(err)
		}
		r.settle(2 * time.Minute)
		if r.observes(1) || !r.observes(2) {
			t.Error("a confirmed config was undone")
		}
		last := r.told(nodeapi.EventQuery{Kind: nodeapi.EventConfig})
		if x, err := r.enforce(1, "", nodeapi.EnforceOptions{}); err != nil || x.Adapters == nil || len(x.Adapters) > 0 {
			t.Errorf("%+v, %v", x, err)
		}
		if now := r.told(nodeapi.EventQuery{Kind: nodeapi.EventConfig}); !slices.Equal(now, last) {
			t.Errorf("enforcing what is enforced changes the config: %q", now[len(last):])
		}
		for _, unknown := range [][2]string{{appID(9), ""}, {appID(2), "1"}, {appID(2), "x"}, {"nonsense", ""}} {
			if _, err := r.node.Enforce(context.Background(), unknown[0], unknown[1], nodeapi.EnforceOptions{}); !errors.Is(err,
				rest.ErrNotFound) {
				t.Errorf("%q: %v", unknown, err)
			}
		}
	})
}

// A config file that still observes is named: it comes into effect again when it changes.
func TestEnforceLeavesTheConfigFileAlone(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.files.SetConfig(observing(1, 1))
		r.node.Reload()
		r.settle(0)
		r.ready(time.Second, "app/"+appID(1))
		x, err := r.enforce(1, "", nodeapi.EnforceOptions{})
		if err != nil || len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0], appID(1)+".adapters.0.observe") {
			t.Errorf("%+v, %v", x, err)
		}
		r.sourceIs("enforced", "apply", 2, "")
		r.node.Reload() // the same file
		r.settle(time.Second)
		r.stop()
		r.start()
		r.ready(time.Second, "app/"+appID(1))
		if r.observes(1) {
			t.Error("a restart brings observe back")
		}
	})
}

// Two operators change a config at once: what was made from the config before is not applied over the other's.
func TestEnforceUndoesNoOtherChange(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(observing(1, 2))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		answers := make(chan error, 2)
		for app := 1; app <= 2; app++ {
			go func() {
				_, err := r.node.Enforce(context.Background(), appID(app), "", nodeapi.EnforceOptions{})
				answers <- err
			}()
		}
		errs := []error{<-answers, <-answers}
		r.settle(time.Second)
		for _, err := range errs {
			if err != nil && !errors.Is(err, rest.ErrConflict) {
				t.Error(err)
			}
		}
		refused := 0
		for app := 1; app <= 2; app++ {
			if r.observes(app) {
				refused++
			}
		}
		failed := len(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
		if refused != failed || refused == 2 {
			t.Errorf("%d refused, and %d apps observe", failed, refused)
		}
	})
}

func TestEnforceChangesNothingOnAManagedNode(t *testing.T) {
	onHost(t, func(r *rig) {
		r.about.Controller = "controller.test:443"
		r.start()
		r.netns("ns1")
		s := &steward{r: r}
		r.node.Agent().Up(s)
		r.push(1, observing(1, 1))
		r.settle(5 * time.Second)
		shown, err := r.enforce(1, "", nodeapi.EnforceOptions{DryRun: true})
		if err != nil || len(shown.Flows.List) == 0 {
			t.Errorf("a dry run: %+v, %v", shown, err)
		}
		_, err = r.enforce(1, "", nodeapi.EnforceOptions{})
		if want := "controller.test:443, which sets observe: run there 'edgespan node modify n appNetworks." + appID(1) +
			".adapters.0.observe=false'"; !errors.Is(err, rest.ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if !r.observes(1) {
			t.Error("the config of the controller was changed")
		}
		if _, err := r.node.Apply(context.Background(), []byte(observing(1, 1)), nodeapi.ApplyOptions{Local: true, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		r.settle(time.Second)
		if _, err := r.enforce(1, "", nodeapi.EnforceOptions{}); err != nil || r.observes(1) {
			t.Errorf("held locally: %v", err)
		}
	})
}
