package demo

import (
	"net"
	"strings"
	"testing"
)

func TestTheDemosProcessSaysWhatIsWrong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	got := cli(t, nil, "", "demo-isp", "--http", l.Addr().String())
	if got.Code != 1 || got.Out != "" || !strings.Contains(got.Err, "in use") || strings.Count(got.Err, "\n") != 1 {
		t.Errorf("a port that is taken: %+v", got)
	}
	if got := cli(t, nil, "", "demo-isp", "--frob"); got.Code != 2 {
		t.Errorf("an unknown flag: %+v", got)
	}
}

func TestTheExampleHasWhatTheDemoShows(t *testing.T) {
	if _, err := readExample([]byte("networkInstances: {}")); err == nil {
		t.Error("an example without a network is accepted")
	}
	d, err := newDemoRun(demoProgram{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	home, guest := d.ex.home, d.ex.guest
	if !home.gateway.IsValid() || home.domain == "" || d.ex.web == d.ex.client || home.id == guest.id ||
		home.subnet.Overlaps(guest.subnet) {
		t.Errorf("%+v", d.ex)
	}
	if _, err := onNetwork([]byte(`{"appNetworks": {}}`), d.ex.client, guest.id); err == nil {
		t.Error("an app that is in no config moves")
	}
}

func TestAWrongDemoIsAnErrorOfUsage(t *testing.T) {
	for line, said := range map[string]string{
		"demo sideways":             "got 1 argument",
		"demo exec nowhere -- true": "nowhere", // without a lab
	} {
		if got := cli(t, nil, "", strings.Fields(line)...); got.Code != 2 || got.Out != "" ||
			!strings.Contains(got.Err, said) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
