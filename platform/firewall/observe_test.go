package firewall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/platform/proc"
)

func TestAFailedListingNamesItsCommand(t *testing.T) {
	dir := t.TempDir()
	save, nft := filepath.Join(dir, "iptables-save"), filepath.Join(dir, "nft")
	t.Setenv("PATH", dir)
	f := New(proc.New(""), func(int) string { return dir })
	const good, bad = "#!/bin/sh\n", "#!/bin/sh\necho no such thing >&2; exit 3\n"
	for _, c := range []struct{ save, nft, want string }{
		{bad, good, "iptables-save -t filter: "},
		{good, bad, "nft -s list ruleset bridge: "},
	} {
		for path, text := range map[string]string{save: c.save, nft: c.nft} {
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		_, observed := f.Observe(t.Context(), 1, true)
		_, numbered := f.Numbers(t.Context())
		for _, err := range []error{observed, numbered} {
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "no such thing") {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
		}
	}
}
