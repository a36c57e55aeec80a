package main

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
)

const protocolPage = "../../docs/protocol.md"

// seedCommands are the words of the seed: its table Operations, its sections on syncing and
// interoperability, and what its E2E section calls "the same operations".
var seedCommands = strings.Fields(`
	GET_CTRL_CONFIG_REQ GET_CTRL_CONFIG_PATHS_REQ
	GET_CTRL_CONFIG_BASE_REQ GET_CTRL_CONFIG_FIRMWARE_BASE_REQ GET_CTRL_CONFIG_HARDWARE_BASE_REQ
	GET_CTRL_CONFIG_AUTO_NODE_OVERRIDES_REQ GET_CTRL_CONFIG_NETWORK_OVERRIDES_REQ GET_CTRL_CONFIG_NODE_OVERRIDES_REQ
	SET_CTRL_CONFIG_NETWORK_OVERRIDES_REQ SET_CTRL_CONFIG_NODE_OVERRIDES_REQ
	MODIFY_CTRL_CONFIG_NETWORK_OVERRIDES_REQ MODIFY_CTRL_CONFIG_NODE_OVERRIDES_REQ CLEAR_AUTO_NODE_OVERRIDES_CONFIG
	GET_CTRL_CONFIG_METADATA_REQ
	GET_CTRL_CONFIG_NETWORK_OVERRIDES_ACTIONS_REQ GET_CTRL_CONFIG_NODE_OVERRIDES_ACTIONS_REQ ` +
	`GET_CTRL_CONFIG_ACTIONS_RESULTS_REQ
	TRIGGER_POLARITY_OPTIMIZATION TRIGGER_GOLAY_OPTIMIZATION TRIGGER_CONTROL_SUPERFRAME_OPTIMIZATION ` +
	`TRIGGER_CHANNEL_OPTIMIZATION
	GET_CTRL_CONFIG_CONTROLLER_REQ SET_CTRL_CONFIG_CONTROLLER_REQ GET_CTRL_CONFIG_CONTROLLER_METADATA_REQ
	GET_AGGR_CONFIG_REQ SET_AGGR_CONFIG_REQ GET_AGGR_CONFIG_METADATA_REQ
	EDIT_NODE ADD_NODE SET_MINION_CONFIG_REQ GET_MINION_CONFIG_ACTIONS_REQ GET_MINION_BASE_CONFIG MINION_BASE_CONFIG ` +
	`STATUS_REPORT`)

// operation is a row of the page: a command of the seed, its route and ours.
type operation struct{ seed, method, path, body, command string }

var operationRow = regexp.MustCompile("^\\| ([A-Z_]+) \\| `([A-Z]+) (/[^`]*)` \\| ([^|]*) \\| `edgespan ([^`]*)` \\|$")

func operations(t *testing.T) []operation {
	t.Helper()
	text, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	var out []operation
	for line := range strings.Lines(strings.ReplaceAll(string(text), " | | ", " |  | ")) {
		if m := operationRow.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			out = append(out, operation{m[1], m[2], m[3], m[4], m[5]})
		}
	}
	return out
}

// TestEachCommandOfTheSeedHasOneRow holds the page to the seed's words.
func TestEachCommandOfTheSeedHasOneRow(t *testing.T) {
	var named []string
	for _, o := range operations(t) {
		named = append(named, o.seed)
	}
	for _, word := range seedCommands {
		if n := len(slices.DeleteFunc(slices.Clone(named), func(s string) bool { return s != word })); n != 1 {
			t.Errorf("%s has %d rows with a route and a command in %s", word, n, protocolPage)
		}
	}
	if len(named) != len(seedCommands) {
		t.Errorf("%d rows for %d commands", len(named), len(seedCommands))
	}
}

// TestRouteAndCommandOfARowAskTheSame asks the controller by the route and by the command of
// each row of the page.
func TestRouteAndCommandOfARowAskTheSame(t *testing.T) {
	const overrides = `{"sysParams": {"managedConfig": true}}`
	doc := clitest.File(t, overrides)
	bodies := map[string]string{"": "", "overrides": overrides, "config": overrides, "entry": overrides,
		"new name": `{"to": "NEW"}`}
	for _, o := range operations(t) {
		f := clitest.SmallFleet()
		env := clitest.ServeFleet(t, f)
		body, known := bodies[o.body]
		if !known {
			t.Errorf("%s: body is %q", o.seed, o.body)
		}
		path := strings.NewReplacer("{node}", "pop-1", "{id}", "p1").Replace(o.path)
		status, text := askRoute(t, env, o.method, path, body)
		byRoute := strings.Join(f.TakeRequests(), "; ")
		if status/100 != 2 || byRoute == "" {
			t.Errorf("%s: %s %s: status %d, asks %q: %s", o.seed, o.method, path, status, byRoute, text)
		}
		command := strings.NewReplacer("{node}", "pop-1", "{id}", "p1", "FILE", doc).Replace(o.command)
		got := cli(t, env, "", strings.Fields(command)...)
		if byCommand := strings.Join(f.TakeRequests(), "; "); got.Code != term.ExitOK || byCommand != byRoute {
			t.Errorf("%s: edgespan %s: exit %d, asks\n %s\nthe route asks\n %s\n%s", o.seed, command, got.Code, byCommand,
				byRoute, got.Err)
		}
	}
}

// askRoute asks as any HTTP client would.
func askRoute(t *testing.T, env map[string]string, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, env["EDGESPAN_CONTROLLER"]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestEveryPathOfTheSeedIsMapped looks for each path that the seed names in the page's table.
func TestEveryPathOfTheSeedIsMapped(t *testing.T) {
	text, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(`/data/cfg/ /data/cfg/node_config.json ` +
		`/data/cfg/auto_node_config_overrides.json /data/cfg/network_config_overrides.json
		/data/cfg/node_config_overrides.json /data/cfg/controller_config.json /data/cfg/aggregator_config.json
		/etc/e2e_config/base_versions/<version>.json /etc/e2e_config/base_versions/fw_versions/<version>.json
		/etc/e2e_config/base_versions/hw_versions/hw_types.json ` +
		`/etc/e2e_config/base_versions/hw_versions/<hw_type>/<version>.json
		/etc/e2e_config/config_metadata.json /etc/e2e_config/controller_config_metadata.json ` +
		`/etc/stats_config/aggregator_config_metadata.json
		/etc/tgversion /var/run/node_info`) {
		if strings.Count(string(text), "\n| `"+path+"` | ") != 1 {
			t.Errorf("%s: has no row in %s", path, protocolPage)
		}
	}
	// What the table names of ours must be there.
	for _, m := range regexp.MustCompile("`edgespan ((?:node|network|controller|aggregator|metadata) [^`]*)`").FindAllStringSubmatch(string(text), -1) {
		words := strings.Fields(m[1])
		cmd, _, err := program(&reach.App{Streams: term.Streams{Env: os.Getenv}}).Find(words)
		if err != nil || cmd.Name() != words[1] {
			t.Errorf("edgespan %s: is no command: %v", m[1], err)
		}
	}
}
