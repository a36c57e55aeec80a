package term

import "testing"

func TestHealthHasAColour(t *testing.T) {
	for cell, code := range map[string]string{"green": "32", "yellow": "33", "red": "31", "unknown": "33"} {
		if got := paint("HEALTH", cell); got != "\x1b["+code+"m"+cell+"\x1b[0m" {
			t.Errorf("%q", got)
		}
	}
}

func TestStatesOfNodesHaveAColour(t *testing.T) {
	for cell, code := range map[string]string{"InSync": "32", "Pushing": "33", "RolledBack": "31", "Degraded": "31"} {
		if got := paint("STATE", cell); got != "\x1b["+code+"m"+cell+"\x1b[0m" {
			t.Errorf("%q", got)
		}
	}
}
