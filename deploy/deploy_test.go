// Package deploy owns what a machine needs beside the programs: units of systemd, scripts, alerts and dashboards, whose
// tests over real programs are in integration/scenario, and a Puppet module, whose tests are in integration/puppet. It
// never holds code of a program.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine makes a root with files of the kernel's.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestGenNodeInfo(t *testing.T) {
	const dmi, tree = "sys/class/dmi/id/", "proc/device-tree/"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"the board": {map[string]string{
			dmi + "board_vendor": "Supermicro\n", dmi + "board_name": "X11SDV-4C-TLN2F\n", dmi + "sys_vendor": "Vendor\n", dmi +
				"product_name": "Product\n",
		}, "SUPERMICRO_X11SDV-4C-TLN2F"},
		"the product where the board has no name of its own": {map[string]string{
			dmi + "board_vendor": "x\n", dmi + "board_name": "Default string\n", dmi + "sys_vendor": "QEMU\n", dmi +
				"product_name": "Standard PC (Q35 + ICH9, 2009)\n",
		}, "QEMU_STANDARD_PC_Q35_ICH9_2009"},
		"a name without a vendor": {map[string]string{dmi + "board_name": "  box \n"}, "BOX"},
		"the device tree": {map[string]string{tree + "compatible": "fsl,ls1048a-puma\x00fsl,ls1048a\x00", tree +
			"model": "Puma\x00"}, "FSL_LS1048A-PUMA"},
		"its model": {map[string]string{tree + "model": "Raspberry Pi 4 Model B Rev 1.4\x00"},
			"RASPBERRY_PI_4_MODEL_B_REV_1.4"},
		"what would be shell code": {map[string]string{dmi + "board_name": "$(reboot); `x` 'y' \"z\"\n"}, "REBOOT_X_Y_Z"},
		"letters of other scripts": {map[string]string{dmi + "board_vendor": "Fürth\n", dmi + "board_name": "ü\n", tree +
			"model": "m\x00"}, "F_RTH"},
	} {
		t.Run(name, func(t *testing.T) {
			root := machine(t, c.files)
			file := filepath.Join(root, "node_info")
			if err := os.WriteFile(file, []byte("MAC=02:00:00:00:00:01\nHW_BOARD_ID=OLD\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), "./gen-node-info", file, root).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got, err := os.ReadFile(file)
			if want := "MAC=02:00:00:00:00:01\nHW_BOARD_ID=" + c.want + "\n"; err != nil || string(got) != want {
				t.Errorf("%q, %v: want %q", got, err, want)
			}
			if rest, _ := filepath.Glob(file + ".*"); len(rest) > 0 {
				t.Errorf("it left %q", rest)
			}
		})
	}
}

func TestGenNodeInfoWithoutABoard(t *testing.T) {
	root := machine(t, map[string]string{"sys/class/dmi/id/board_name": "To Be Filled By O.E.M.\n",
		"node_info": "HW_BOARD_ID=OLD\n"})
	file := filepath.Join(root, "node_info")
	cmd := exec.CommandContext(t.Context(), "./gen-node-info", file, root)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "names the board") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "HW_BOARD_ID=OLD\n" {
		t.Errorf("the file became %q, %v", got, err)
	}
	cmd = exec.CommandContext(t.Context(), "./gen-node-info")
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("without a file: exit code %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}

// unit is what a unit of systemd sets, by key; the last of several counts.
func unit(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			set[key] = value
		}
	}
	return set
}

// A stop, a crash or an upgrade of the node leaves its dnsmasqs, its executors and its run folder;
// it is started again for ever, and what it may do is named.
func TestTheNodesUnitLeavesTheDataPlane(t *testing.T) {
	set := unit(t, "edgespan.service")
	for key, want := range map[string]string{
		"Type": "notify", "KillMode": "process", "OOMPolicy": "continue", "RuntimeDirectory": "edgespan",
		"RuntimeDirectoryPreserve": "yes", "StateDirectory": "edgespan",
		"Restart": "always", "StartLimitIntervalSec": "0", "WatchdogSec": "90", "NoNewPrivileges": "yes",
	} {
		if set[key] != want {
			t.Errorf("%s is %q, want %q", key, set[key], want)
		}
	}
	for _, never := range []string{"PrivateNetwork", "ProtectKernelTunables", "ProtectKernelModules", "RestrictNamespaces",
		"PrivateUsers"} {
		if v := set[never]; v != "" {
			t.Errorf("%s=%s would keep the node from its work", never, v)
		}
	}
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: not verified by it")
		return
	}
	folder := t.TempDir()
	text, err := os.ReadFile("edgespan.service")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(folder, "edgespan.service")
	if err := os.WriteFile(copied, []byte(strings.Replace(string(text), "/usr/bin/edgespan ", "/bin/true ", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, "verify", copied).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "edgespan.service") {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// The controller's unit starts it with the flags of its config file as they were meant, then with those
// of the environment; a file that can't be read ends the start, and none is no fault.
func TestTheControllerStartsWithTheFlagsOfItsFile(t *testing.T) {
	if start := unit(t, "edgespan-controller.service")["ExecStart"]; start != "/usr/lib/edgespan/controller-start "+
		"--data-dir ${STATE_DIRECTORY}" {
		t.Errorf("the unit runs %q", start)
	}
	root := machine(t, map[string]string{"present.json": "{}", "broken.json": "{"})
	for name, text := range map[string]string{
		"edgespan": `[ "$1 $2" = "layers print-flags" ] || exit 9; case $3 in *broken*) echo "$3: broken" ` +
			`>&2; exit 4;; esac; echo "--listen=:9 '--name=a b' '--x=\$(reboot) *'"`,
		"edgespan-controller": `printf '<%s>' "$@"`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, env, want string
		code            int
	}{
		{"present.json", "--listen=:10 --etcd=*",
			"<--data-dir></d e><--listen=:9><--name=a b><--x=$(reboot) *><--listen=:10><--etcd=*>", 0},
		{"present.json", "", "<--data-dir></d e><--listen=:9><--name=a b><--x=$(reboot) *>", 0},
		{"none.json", "--listen=:10", "<--data-dir></d e><--listen=:10>", 0},
		{"broken.json", "--listen=:10", "", 4},
	} {
		cmd := exec.CommandContext(t.Context(), "./controller-start", "--data-dir", "/d e")
		cmd.Env = []string{"PATH=" + root + ":/usr/bin:/bin", "EDGESPAN_CONTROLLER_CONFIG=" + filepath.Join(root, c.file),
			"EDGESPAN_CONTROLLER_FLAGS=" + c.env}
		out, err := cmd.Output()
		if string(out) != c.want || cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%s, %q: %s, %v; want %s", c.file, c.env, out, err, c.want)
		}
	}
}

// The node starts after the file that says what board it is was written, where its default looks for it.
func TestTheNodeStartsAfterItsBoardIsKnown(t *testing.T) {
	node, info := unit(t, "edgespan.service"), unit(t, "edgespan-node-info.service")
	if info["ExecStart"] != "/usr/lib/edgespan/gen-node-info /var/run/node_info" || info["Type"] != "oneshot" ||
		info["Before"] != "edgespan.service" {
		t.Errorf("the unit is %v", info)
	}
	for _, key := range []string{"After", "Wants"} {
		if !strings.Contains(node[key], "edgespan-node-info.service") {
			t.Errorf("the node's %s is %q", key, node[key])
		}
	}
}
