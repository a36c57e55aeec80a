package scenario

import (
	"strings"
	"syscall"
	"testing"
)

func TestARefusedConfigFileIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	before := w.status("config", "node")
	if before["source"] != "file" || before["generation"] != 1.0 || before["error"] != "" ||
		len(before["md5"].(string)) != 32 || len(before["fileDigest"].(string)) != 64 {
		t.Errorf("the config's status is %v", before)
	}
	if err := w.WriteConfig([]byte("networkInstances: {x: {type: 5}}\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.node.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.eventually("the refusal", func() bool {
		why, _ := w.status("config", "node")["error"].(string)
		return strings.Contains(why, "networkInstances.x")
	})
	now := w.status("config", "node")
	for _, field := range []string{"source", "generation", "md5", "fileDigest"} {
		if now[field] != before[field] {
			t.Errorf("%s is %v, want %v as before the refusal", field, now[field], before[field])
		}
	}
	if out := w.cli("get", "config", "-o", "wide"); !strings.Contains(out, "SOURCE") ||
		!strings.Contains(out, "networkInstances.x") {
		t.Errorf("get config prints\n%s", out)
	}
}
