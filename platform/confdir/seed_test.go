package confdir

import (
	"fmt"
	"path/filepath"
	"testing"

	"edgespan/config"
	"edgespan/config/layers"
)

// The seed, "Layered Configuration Model": each sub-test is a row of docs/seeds.md.
func TestSeed_EachLayerHasItsFile(t *testing.T) {
	value := func(layer string) string { return fmt.Sprintf(`{"from":%q,%q:1}`, layer, layer) }
	dir := tree(t, map[string]string{ // below /etc/e2e_config and /data/cfg
		"base_versions/RELEASE_M60.json":                  value("base"),
		"base_versions/RELEASE_M61.json":                  value("another base"),
		"base_versions/fw_versions/10.11.0.json":          value("firmware"),
		"base_versions/hw_versions/hw_types.json":         `{"NXP":["NXP_LS1048A_PUMA","NXP_LS1088A_RDB"],"ACME":["ACME_1"]}`,
		"base_versions/hw_versions/NXP/RELEASE_M60.json":  value("hardware"),
		"base_versions/hw_versions/NXP/RELEASE_M61.json":  value("another hardware"),
		"base_versions/hw_versions/ACME/RELEASE_M60.json": value("another type"),
		"cfg/auto_node_config_overrides.json":             `{"pop":` + value("auto") + `,"x":` + value("another node") + `}`,
		"cfg/network_config_overrides.json":               value("network"),
		"cfg/node_config_overrides.json":                  `{"pop":` + value("node") + `,"x":` + value("another node") + `}`,
	})
	d := open(t, filepath.Join(dir, "base_versions"))
	s, err := d.Read(d.Library.Choose(layers.Versions{Software: "RELEASE_M60_7-0-g5bec98eb9", Firmware: "10.11.0.5",
		Board: "NXP_LS1088A_RDB"}))
	if err != nil {
		t.Fatal(err)
	}
	own := func(name string) config.Object {
		o, err := ReadObject(filepath.Join(dir, "cfg", name))
		nodes, faults := layers.NodeLayers(o)
		if err != nil || faults != nil || len(nodes) != 2 {
			t.Errorf("%s: %v, %v, %v", name, nodes, err, faults)
		}
		return nodes["pop"]
	}
	check := func(t *testing.T, o config.Object, layer string) {
		t.Helper()
		if o["from"] != layer || o[layer] != int64(1) || len(o) != 2 {
			t.Errorf("%v, want that of the %s", o, layer)
		}
	}
	t.Run("TCM-F1", func(t *testing.T) { check(t, s[layers.Base], "base") }) // base_versions/<version>.json
	// base_versions/fw_versions/<version>.json
	t.Run("TCM-F2", func(t *testing.T) { check(t, s[layers.Firmware], "firmware") })
	// base_versions/hw_versions/<hw_type>/<version>.json
	t.Run("TCM-F3", func(t *testing.T) { check(t, s[layers.Hardware], "hardware") })
	// base_versions/hw_versions/hw_types.json
	t.Run("TCM-F4", func(t *testing.T) {
		if b := d.Library.Boards; len(b) != 3 || b["NXP_LS1048A_PUMA"] != "NXP" || b["NXP_LS1088A_RDB"] != "NXP" ||
			b["ACME_1"] != "ACME" {
			t.Errorf("%v", b)
		}
	})
	t.Run("TCM-F5", func(t *testing.T) { check(t, own("auto_node_config_overrides.json"), "auto") })
	t.Run("TCM-F6", func(t *testing.T) { // network_config_overrides.json
		o, err := ReadObject(filepath.Join(dir, "cfg/network_config_overrides.json"))
		if err != nil {
			t.Error(err)
		}
		check(t, o, "network")
	})
	t.Run("TCM-F7", func(t *testing.T) { check(t, own("node_config_overrides.json"), "node") })
}
