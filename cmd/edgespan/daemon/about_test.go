package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/config/nodeconf/action"
)

func TestWhatANodeIs(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("bases/RELEASE_M2.json", `{"a":1}`)
	put("bases/hw_versions/hw_types.json", `{"NXP":["b7"]}`)
	put("bases/hw_versions/NXP/RELEASE_M2.json", `{"hw":1}`)
	o := nodeOptions{Version: "v1.2.3-4-gabc", About: aboutFiles{
		Version: put("version", "RELEASE_M2_1\nmore\n"), Firmware: put("fw", "10.9.0\n"),
		Info:     put("info", "X=1\nHW_BOARD_ID=\"b7\"\n"),
		Metadata: put("meta.json", `{"vendor":{"desc":"d","action":"RESTART_KEA","type":"STRING"}}`),
		BaseDir:  filepath.Join(dir, "bases"),
		Actions:  put("actions.yaml", "RESTART_KEA: {unit: kea}\n"),
	}}
	f, err := readNodeFacts(o, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if f.Software != "RELEASE_M2_1" || f.Firmware != "10.9.0" || f.Board != "b7" || f.Bases["RELEASE_M2"] == nil ||
		len(f.Bases) < 2 ||
		f.Hardware["RELEASE_M2"] == nil || f.Actions["RESTART_KEA"].Unit != "kea.service" {
		t.Errorf("the node is %+v", f)
	}
	if _, has := f.Metadata.Entry([]string{"vendor"}); !has {
		t.Error("the vendor's metadata is not there")
	}
	o.About = aboutFiles{Actions: o.About.Actions}
	if f, err = readNodeFacts(o, zap.NewNop()); err != nil || f.Software != "EDGESPAN-1-2-3" || f.Board != "" {
		t.Errorf("without files it is %+v, %v", f, err)
	}
	root := filepath.Join(dir, "root")
	o.About = aboutFiles{Actions: o.About.Actions}
	put("root/etc/tgversion", "\n")
	if got := o.About.withDefaults(root); got != o.About {
		t.Errorf("files that say nothing, or are not there, are taken: %+v", got)
	}
	put("root/etc/tgversion", "Facebook Terragraph Release RELEASE_M81-5-g1 x@y\n")
	put("root/var/run/node_info", "HW_BOARD_ID=PUMA\n")
	o.About = o.About.withDefaults(root)
	if f, err = readNodeFacts(o, zap.NewNop()); err != nil ||
		f.Software != "Facebook Terragraph Release RELEASE_M81-5-g1 x@y" ||
		f.Board != "PUMA" {
		t.Errorf("by the files of the seed it is %+v, %v", f, err)
	}
	o.About.Version, o.About.Info = put("version", "RELEASE_M2_1\n"), put("info", "HW_BOARD_ID=b7\n")
	if got := o.About.withDefaults(root); got != o.About {
		t.Errorf("flags do not go before the files of the seed: %+v", got)
	}
	o.About = aboutFiles{Version: dir + "/none", Firmware: put("empty", "\n"),
		Actions: put("bad.yaml", "REBOOT: {unit: x}\n")}
	_, err = readNodeFacts(o, zap.NewNop())
	for _, want := range []string{"none", "first line empty", "reserved action"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("wrong files: %v, want %q in it", err, want)
		}
	}
}

// The table of actions in docs/operations.md is one.
func TestTheActionsOfTheDocumentAreATable(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## On the node")
	_, rest, _ := strings.Cut(section, "```yaml\n")
	table, _, _ := strings.Cut(rest, "```")
	got, faults := action.Parse([]byte(table))
	if faults != nil || got["RESTART_KEA"].Unit != "kea-dhcp6.service" || got["RESTART_SNMP"].Timeout != 10*time.Second {
		t.Errorf("%q is %+v, %v", table, got, faults)
	}
}
