package scenario

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"edgespan/pubsub/loglevel"
)

// As an operator I make one subsystem of a running daemon quiet, or talkative, and see in the log that I did.
func TestTheLevelOfASubsystemIsChangedAtRunTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("{}")
	lines := func(text string) int {
		said, err := os.ReadFile(w.NodeLog())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(said), text)
	}
	const published = `"msg":"config published"`
	w.cli("loglevel", "config", "warn")
	before := lines(published)
	w.apply(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	if n := lines(published); n != before {
		t.Errorf("a subsystem at warn writes %d lines of info", n-before)
	}
	if lines(`"logger":"bridge"`) == 0 {
		t.Error("another subsystem is quiet, too")
	}
	if lines(`"msg":"log level changed"`) != 1 {
		t.Error("the change is not in the log")
	}
	w.cli("loglevel", "config", "reset")
	w.apply(doc([]string{network(2, "")}))
	w.wait("ready", "ni/"+ni(2))
	if n := lines(published); n != before+1 {
		t.Errorf("after the reset: %d lines", n-before)
	}
	w.apply("sysParams: {logLevel: error}\n")
	var all struct{ Levels []loglevel.Setting }
	w.eventually("the config is the level of all", func() bool {
		if err := json.Unmarshal([]byte(w.cli("loglevel", "-o", "json")), &all); err != nil {
			t.Fatal(err)
		}
		for _, l := range all.Levels {
			if l.Level != "error" {
				return false
			}
		}
		return len(all.Levels) > 5
	})
}
