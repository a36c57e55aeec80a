package scenario

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// As a newcomer I run the demos, and each step of them succeeds.
func TestTheDemosShowWhatTheySay(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"demo", "demo vpn"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, binary, strings.Fields(line)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "steps passed in") || strings.Contains(string(out), "FAILED") {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}
