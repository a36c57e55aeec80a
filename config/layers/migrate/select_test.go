package migrate

import (
	"reflect"
	"strings"
	"testing"
)

func versionsOf(all []Migration) string {
	var out []string
	for _, m := range all {
		out = append(out, strings.TrimPrefix(m.Version, "RELEASE_"))
	}
	return strings.Join(out, " ")
}

func TestDueAndLevel(t *testing.T) {
	m := func(version string) Migration { return Migration{Version: version, Kind: Node} }
	list := []Migration{m("RELEASE_M46"), m("RELEASE_M60"), m("OTHER_2"), m("RELEASE_M78")}
	for _, c := range []struct {
		name             string
		done             Done
		nodes            string
		due, held, level string
		after            Done
	}{
		{"a store that none has run on", nil, "", "M46 M60 OTHER_2 M78", "", "M46 M60 OTHER_2 M78",
			Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"}},
		{"between two versions", Done{"RELEASE_M": "RELEASE_M60", "OTHER_": "OTHER_2"}, "", "M78", "", "M46 M60 OTHER_2 M78",
			Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"}},
		{"all is done", Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"}, "", "", "", "M46 M60 OTHER_2 M78",
			Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"}},
		{"by a newer controller", Done{"RELEASE_M": "RELEASE_M90", "OTHER_": "OTHER_3"}, "", "", "", "M46 M60 OTHER_2 M78",
			Done{"RELEASE_M": "RELEASE_M90", "OTHER_": "OTHER_3"}},
		{"a node is older", nil, "RELEASE_M81 RELEASE_M77_3", "M46 M60 OTHER_2", "M78", "M46 M60 OTHER_2",
			Done{"RELEASE_M": "RELEASE_M60", "OTHER_": "OTHER_2"}},
		{"a node joined later is older than what was done", Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"},
			"RELEASE_M44", "", "", "M46 M60 OTHER_2 M78", Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"}},
		{"nodes of other families hold nothing", nil, "EDGESPAN-1-0-0 unknown", "M46 M60 OTHER_2 M78", "",
			"M46 M60 OTHER_2 M78", Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"}},
		{"of the very version", nil, "RELEASE_M78", "M46 M60 OTHER_2 M78", "", "M46 M60 OTHER_2 M78",
			Done{"RELEASE_M": "RELEASE_M78", "OTHER_": "OTHER_2"}},
	} {
		nodes := strings.Fields(c.nodes)
		due, level := due(list, c.done, nodes), level(list, c.done, nodes)
		if got := versionsOf(due.Steps()); got != c.due {
			t.Errorf("%s: due %s, want %s", c.name, got, c.due)
		}
		if got := versionsOf(due.Held); got != c.held {
			t.Errorf("%s: held %s, want %s", c.name, got, c.held)
		}
		if got := versionsOf(level.Steps()); got != c.level {
			t.Errorf("%s: level %s, want %s", c.name, got, c.level)
		}
		before := len(c.done)
		if got := due.After(c.done); !reflect.DeepEqual(got, c.after) || len(c.done) != before {
			t.Errorf("%s: after it %v, want %v; before it is %v", c.name, got, c.after, c.done)
		}
	}
	for version, want := range map[string]bool{"RELEASE_M77": true, "RELEASE_M78": false, "RELEASE_M81": false,
		"EDGESPAN-1-0-0": false, "": false} {
		if got := list[3].Newer(version); got != want {
			t.Errorf("newer than %q: %t", version, got)
		}
	}
	doc, changes, faults := Due(Done{"RELEASE_M": "RELEASE_M78"}, nil).Run(Node,
		object(t, `{"envParams":{"OPENR_IFACE_PREFIXES":"terra"},"radioParamsBase":{"wsecParams":{"eapolParams":{}}}}`))
	if faults != nil || len(changes) != 1 || !strings.Contains(text(doc), "wsecParams") {
		t.Errorf("%s: %s, %v", text(doc), say(changes), faults)
	}
}
