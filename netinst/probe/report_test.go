package probe

import "testing"

// What is reported of ports names each class once, the worst first, and nothing that every measurement changes.
func TestClasses(t *testing.T) {
	score := func(c Class, why string) Choice {
		return Choice{Port: "wan", Ports: []Score{{Label: "wan", Class: c, Why: why, Loss: 7}}}
	}
	for name, c := range map[string]struct {
		choices map[string]map[string]Choice
		want    string
	}{
		"one network": {map[string]map[string]Choice{"a": {"uplink": score(Working, "")}}, "works"},
		"two that agree": {map[string]map[string]Choice{"a": {"uplink": score(Dead, "no answer")},
			"b": {"wan": score(Dead, "other")}}, "dead (no answer)"},
		"two that differ": {map[string]map[string]Choice{"a": {"uplink": score(Working, "")},
			"b": {"wan": score(Dead, "no answer")}}, "dead, works (no answer)"},
		"over a limit": {map[string]map[string]Choice{"a": {"uplink": score(Degraded, "loses 7 %")}}, "degraded"},
		"no network":   {nil, ""},
	} {
		if got := Classes(c.choices)["wan"]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheReportOfAChoice(t *testing.T) {
	two := []Score{{Label: "lte"}, {Label: "wan"}}
	for name, c := range map[string]struct {
		choice Choice
		want   string
	}{
		"moved":       {Choice{Port: "lte", Why: "wan: dead", Ports: two}, "by port lte: wan: dead"},
		"nothing":     {Choice{Ports: two}, ""},
		"one to take": {Choice{Port: "wan", Why: "the only one", Ports: two[1:]}, ""},
	} {
		if got := Report(map[string]Choice{"uplink": c.choice}, "uplink"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
