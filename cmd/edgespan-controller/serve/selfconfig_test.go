package serve

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/config/nodeconf/action"
	"edgespan/pubsub/loglevel"
)

// ownRig carries out changes of a config on a machine that only notes them.
type ownRig struct {
	*selfConfig
	mu    sync.Mutex // of done
	done  []string
	fails error
	log   bytes.Buffer
}

// did is what was done until now.
func (r *ownRig) did() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done)
}

func newOwnRig(t *testing.T, table string) *ownRig {
	t.Helper()
	actions, faults := action.ParseController([]byte(table))
	if faults != nil {
		t.Fatal(faults)
	}
	r := &ownRig{}
	note := func(what string) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done = append(r.done, what)
		return r.fails
	}
	h := Host{
		Terminate: func() { _ = note("SIGTERM") }, Reboot: rebootWait,
		Command: func(_ context.Context, argv []string) error { return note(strings.Join(argv, " ")) },
	}
	every := newLogger(&r.log, zap.DebugLevel)
	level := term.NewLevels(logNames, loglevel.Info, every)
	r.selfConfig = newSelfConfig(h, NewOptions(), actions, term.WithLevels(every, level), level)
	r.assign = func(context.Context) error { return note("assign channels") }
	r.flags = func(o *Options) {
		s := o.settings("x")
		_ = note("interval " + s.Interval.String() + " confirm " + s.Confirm.String())
	}
	return r
}

// change is what follows from a change of the controller's config.
func change(t *testing.T, before, after string) controllerconf.Change {
	t.Helper()
	m, faults := metadata.Parse(schema.ControllerMetadata(), metadata.Options{E2E: true})
	if faults != nil {
		t.Fatal(faults)
	}
	read := func(text string) config.Object {
		o, faults := config.ParseObject([]byte(text))
		if faults != nil {
			t.Fatal(faults)
		}
		return o
	}
	return controllerconf.Changes(m, read(before), read(after))
}

func states(results []action.Result) string {
	var out []string
	for _, r := range results {
		out = append(out, r.Action+" "+string(r.State))
	}
	return strings.Join(out, ", ")
}

func TestSeed_TheControllerPerformsItsOwnActions(t *testing.T) {
	for name, c := range map[string]struct {
		before, after, table string
		states, done         string
	}{
		"UPDATE_GLOG_LEVEL": {`{}`, `{"flags":{"v":"1"}}`, "", "UPDATE_GLOG_LEVEL done", "interval 2m0s confirm 2m0s"},
		"UPDATE_GFLAG": {
			`{}`, `{"flags":{"consecutive_reconfig_delay_s":"5","config_confirm_timeout_s":"60"}}`, "",
			"UPDATE_GFLAG done", "interval 5s confirm 1m0s",
		},
		"UPDATE_GFLAG-default": {`{"flags":{"consecutive_reconfig_delay_s":"5"}}`, `{"flags":{}}`, "", "UPDATE_GFLAG done",
			"interval 2m0s confirm 2m0s"},
		"UPDATE_CHANNEL_ASSIGNMENT": {
			`{}`, `{"topologyParams":{"enabledChannels":"1,2"}}`, "", "UPDATE_CHANNEL_ASSIGNMENT done", "assign channels",
		},
		"UPDATE_SCAN_CONFIG": {`{}`, `{"scanParams":{"a":1}}`, "UPDATE_SCAN_CONFIG: {command: [/bin/scan, now]}",
			"UPDATE_SCAN_CONFIG done", "/bin/scan now"},
		"UPDATE_PREFIX_ALLOC_PARAMS": {`{}`, `{"prefixAllocParams":{"seedPrefix":"2001::/56"}}`, "",
			"UPDATE_PREFIX_ALLOC_PARAMS unsupported", ""},
		"RESTART_STATS_AGENT": {
			`{}`, `{"statsAgentParams":{"sources":{"a":{"enabled":true,"zmq_url":"ipc://x"}}}}`,
			"RESTART_STATS_AGENT: {unit: stats, do: restart}",
			"RESTART_STATS_AGENT done", "systemctl restart stats.service",
		},
		"NO_ACTION": {`{}`, `{"upgradeParams":{"goldenImage":{"version":"1"}}}`, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newOwnRig(t, c.table)
			got := states(r.runActions(t.Context(), change(t, c.before, c.after)))
			if got != c.states || strings.Join(r.did(), ", ") != c.done {
				t.Errorf("%s, done %q: want %s, done %q", got, r.done, c.states, c.done)
			}
		})
	}
	t.Run("REBOOT", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newOwnRig(t, "")
			got := states(r.runActions(t.Context(),
				change(t, `{}`, `{"flags":{"joins_per_second":"2","listen":"127.0.0.1:1","v":"1"}}`)))
			if got != "UPDATE_GLOG_LEVEL done, REBOOT done" && got != "REBOOT done, UPDATE_GLOG_LEVEL done" {
				t.Errorf("got %s", got)
			}
			time.Sleep(rebootWait - time.Millisecond)
			if before := strings.Join(r.did(), ", "); strings.Contains(before, "SIGTERM") {
				t.Errorf("it ended before its answer was out: %s", before)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if did := r.did(); did[len(did)-1] != "SIGTERM" {
				t.Errorf("done %q", r.done)
			}
		})
	})
}

func TestOwnActionsThatFailAreTold(t *testing.T) {
	r := newOwnRig(t, "UPDATE_SCAN_CONFIG: {command: [/bin/scan]}")
	r.fails = errors.New("exit status 3")
	c := change(t, `{}`, `{"scanParams":{"a":1},"topologyParams":{"enabledChannels":"1"},"flags":{"vendor":"1"}}`)
	results := r.runActions(t.Context(), c)
	r.logResults(results, c)
	for _, want := range []string{
		`"action":"UPDATE_SCAN_CONFIG","state":"failed","cause":"exit status 3"`,
		`"action":"UPDATE_CHANNEL_ASSIGNMENT","state":"failed"`,
		`stored, but this program does not read it from here","key":"flags.vendor"`,
	} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log.String())
		}
	}
	err := r.setFlags([]controllerconf.FlagChange{{Flag: controllerconf.Flag{Name: "listen", Value: "127.0.0.1:1"}},
		{Flag: controllerconf.Flag{Name: "vendor", Value: "1"}}}, false)
	const want = "flag listen: cannot be set in the stored config: must be set by --listen or " +
		"EDGESPAN_CONTROLLER_LISTEN\nflag vendor: unknown flag: stored, but ignored by this program"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLogLevelFollowsTheFlag(t *testing.T) {
	r := newOwnRig(t, "")
	for _, step := range []struct {
		before, after string
		want          loglevel.Level
	}{
		{`{}`, `{"flags":{"v":"2"}}`, loglevel.Debug},
		{`{"flags":{"v":"2"}}`, `{"flags":{"v":"0"}}`, loglevel.Info},
		{`{"flags":{"v":"0"}}`, `{"flags":{"v":"1"}}`, loglevel.Debug},
		{`{"flags":{"v":"1"}}`, `{"flags":{}}`, loglevel.Info},
	} {
		r.runActions(t.Context(), change(t, step.before, step.after))
		if got := r.level.Least(); got != step.want {
			t.Errorf("%s to %s: %s, want %s", step.before, step.after, got, step.want)
		}
	}
}

// TestOwnChangesKeepTheirOrder lets changes come while one is being carried out.
func TestOwnChangesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOwnRig(t, "UPDATE_SCAN_CONFIG: {command: [/bin/scan]}\nRESTART_STATS_AGENT: {unit: stats}")
		busy := make(chan struct{})
		r.assign = func(context.Context) error {
			<-busy
			r.mu.Lock()
			defer r.mu.Unlock()
			r.done = append(r.done, "assign")
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.run(ctx)
		r.do(change(t, `{}`, `{"topologyParams":{"enabledChannels":"1"}}`))
		synctest.Wait()
		r.do(change(t, `{}`, `{"scanParams":{"a":1}}`))
		r.do(change(t, `{}`, `{"statsAgentParams":{"sources":{"a":{"enabled":true,"zmq_url":"ipc://x"}}}}`))
		synctest.Wait()
		if len(r.did()) > 0 {
			t.Errorf("done %q while the first is under way", r.done)
		}
		close(busy)
		synctest.Wait()
		if got := strings.Join(r.did(), ", "); got != "assign, /bin/scan, systemctl restart stats.service" {
			t.Errorf("done %s", got)
		}
	})
}

func TestReadActions(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for path, text := range map[string]string{good: "UPDATE_SCAN_CONFIG: {command: [/bin/scan]}",
		bad: "UPDATE_GFLAG: {unit: x}\nREBOOT: {unit: y}"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readActions(good); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := readActions(bad); term.ExitCode(err) != term.ExitRejected ||
		!strings.Contains(err.Error(), "UPDATE_GFLAG") || !strings.Contains(err.Error(), "REBOOT") {
		t.Errorf("%v", err)
	}
	if _, err := readActions(filepath.Join(dir, "none")); term.ExitCode(err) != term.ExitNotFound {
		t.Errorf("%v", err)
	}
}
