package host

import (
	"os"
	"path/filepath"
	"testing"

	"edgespan/netinst/netstate"
)

// The host's links keep their roles while edgespan turns on forwarding of IPv6, and learnt routes are safe meanwhile.
func TestRoutersAreKept(t *testing.T) {
	conf := t.TempDir()
	put := func(path, value string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(conf, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(conf, path), []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	values := func(links map[string][2]string) {
		t.Helper()
		for link, want := range links {
			for i, name := range []string{"forwarding", "accept_ra"} {
				if s, _ := readSetting(filepath.Join(conf, link, name)); s.value != want[i] {
					t.Errorf("%s of %s is %q, want %q", name, link, s.value, want[i])
				}
			}
		}
	}
	before := map[string][2]string{"all": {"0", "1"}, "default": {"0", "1"}, "eth0": {"0", "1"}, "eth1": {"1", "0"},
		"wlan0": {"0", "2"}, "es1": {"0", "1"}}
	for link, v := range before {
		put(link+"/forwarding", v[0])
		put(link+"/accept_ra", v[1])
	}
	err := keepRouters(conf, netstate.ForwardAll6, func() error {
		values(map[string][2]string{"eth0": {"0", "2"}, "eth1": {"1", "0"}, "wlan0": {"0", "2"}, "es1": {"0", "1"}})
		for link := range before { // as the kernel does
			put(link+"/forwarding", "1")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before["all"] = [2]string{"1", "1"}
	values(before)
	err = keepRouters(conf, netstate.Forwarding6Of("es1"), func() error {
		values(map[string][2]string{"eth0": {"0", "2"}})
		put("es1/forwarding", "1")
		return os.RemoveAll(filepath.Join(conf, "eth0")) // it ends meanwhile
	})
	if err != nil {
		t.Fatal(err)
	}
	values(map[string][2]string{"es1": {"1", "1"}, "wlan0": {"0", "2"}})
}
