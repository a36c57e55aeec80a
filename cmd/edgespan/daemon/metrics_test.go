package daemon

import "testing"

func TestMetricsAreServedOnTheLoopbackUnlessAnAddressIsGiven(t *testing.T) {
	for text, want := range map[string]string{
		"9273": "127.0.0.1:9273", ":9273": "127.0.0.1:9273", "192.0.2.1:9273": "192.0.2.1:9273", "[::]:9273": "[::]:9273",
		"0.0.0.0:1": "0.0.0.0:1", "": "", "0": "", "65536": "", "host:9273": "", "192.0.2.1": "", "9273 ": "", "[::1": "",
	} {
		got, err := metricsAddress(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
}
