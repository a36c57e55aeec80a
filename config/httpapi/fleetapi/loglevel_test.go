package fleetapi

import (
	"strings"
	"testing"

	"edgespan/pubsub/loglevel"
)

func TestLogLevelsOfAReplicaAreChangedByAdmins(t *testing.T) {
	var changes []loglevel.Change
	levels := loglevel.New([]string{"api", "link"}, loglevel.Info, func(c loglevel.Change) { changes = append(changes, c) })
	t.Cleanup(func() { levels.Set(loglevel.Change{Subsystem: loglevel.All, Level: loglevel.Reset}) })
	h := Handler(&fake{}, WithTokens(fakeHash), WithLogLevels(levels))
	for _, c := range []struct {
		query, token string
		code         int
		says         string
	}{
		{"subsystem=link&level=debug&for=1h", "t-admin", 200, `"level":"debug"`},
		{"subsystem=link&level=debug", "t-operator", 403, "an admin can"},
		{"subsystem=dns&level=debug", "t-admin", 400, "subsystem: invalid value"},
		{"subsystem=link&level=loud", "t-admin", 400, "level: invalid value"},
		{"subsystem=link&level=debug&for=25h", "t-admin", 400, "for: invalid value"},
		{"subsystem=link&level=debug&for=x", "t-admin", 400, "for: invalid value"},
		{"subsystem=link", "t-admin", 400, "level"},
	} {
		w := ask(h, asked{method: "POST", target: Prefix + "loglevel?" + c.query, token: c.token})
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", c.query, w.Code, w.Body)
		}
	}
	if len(changes) != 1 || changes[0].Subsystem != "link" || changes[0].By != "admin-1" || !levels.Enabled("link", loglevel.Debug) {
		t.Errorf("changes: %+v", changes)
	}
	if w := ask(h, asked{method: "GET", target: Prefix + "loglevel", token: "t-viewer"}); w.Code != 200 ||
		!strings.Contains(w.Body.String(), `"subsystem":"all","level":"info"`) &&
			!strings.Contains(w.Body.String(), `"level":"info","subsystem":"all"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
