package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

// withVoice adds the VLAN voice of the interface eth7 to a config.
func withVoice(doc, id string) string {
	return strings.Replace(doc, "ports:\n", "ports:\n  voice: {ifName: eth7.5, vlan: {parent: eth7, id: "+id+"}, "+
		"addressing: static, address: 10.7.0.2/24, gateway: 10.7.0.1}\n", 1)
}

func (r *rig) withETH7() {
	r.host.SetInterfaces(append(slices.Clone(r.node.d.interfaces()), netstate.Interface{Name: "eth7", MTU: 1500})...)
}

// A VLAN is created with its config, kept by a restart, replaced when its number changes, and removed with its config.
func TestAVLANIsCreatedKeptAndRemoved(t *testing.T) {
	onRig(t, func(r *rig) {
		r.withETH7()
		r.host.Done()
		r.apply(withVoice(doc(0, 0), "5"))
		r.settle(time.Second)
		const on = "-1: add address eth7.5 10.7.0.2/24\n-1: add port eth7\n-1: add port eth7.5\n" +
			"-1: add route 0.0.0.0/0 table 254 metric 1000"
		if got := r.ofPorts(); got != "-1: add link eth7.5\n"+on {
			t.Errorf("created by\n%s", got)
		}
		if s, _ := r.node.d.topics.PortStatus.Get("", "voice"); !s.Exists || !s.Up {
			t.Errorf("it is %+v", s)
		}
		r.stop()
		r.start()
		r.settle(time.Minute)
		if got := r.ofPorts(); got != "" {
			t.Errorf("a restart does\n%s", got)
		}
		r.apply(withVoice(doc(0, 0), "6"))
		r.settle(time.Second)
		replaced := "-1: remove link eth7.5\n-1: add link eth7.5\n" + strings.Replace(on, "-1: add port eth7\n", "", 1)
		if got := r.ofPorts(); got != replaced {
			t.Errorf("replaced by\n%s", got)
		}
		r.apply(doc(0, 0))
		r.settle(time.Second)
		if got := r.ofPorts(); got != "-1: remove route 0.0.0.0/0 table 254 metric 1000\n"+
			"-1: remove address eth7.5 10.7.0.2/24\n-1: remove link eth7.5" {
			t.Errorf("removed by\n%s", got)
		}
	})
}

// Without VLANs in the kernel, the port says so wherever ports are shown, and nothing else suffers. It comes as soon as
// the kernel has them, and waits for its parent.
func TestAKernelWithoutVLANs(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetNoVLANs(true)
		r.withETH7()
		r.netns("ns1")
		r.apply(withVoice(doc(1, 1), "5"))
		r.ready(5*time.Second, "ni/"+niID(1), "app/"+appID(1))
		const no = "add link eth7.5: the kernel has no 802.1Q (module 8021q)"
		if got := r.port("voice").Error; !strings.HasPrefix(got, "no interface eth7.5; "+no) {
			t.Errorf("the port's error is %q", got)
		}
		if got := r.port("wan").Error; got != "" {
			t.Errorf("the error of the port beside it is %q", got)
		}
		x, err := r.node.Explain(context.Background(), "port", "voice")
		if err != nil || x.Ready || !strings.Contains(causes(x.Causes), "802.1Q") {
			t.Errorf("explain says %+v, %v", x, err)
		}
		if got := r.finding("ports"); !strings.HasPrefix(got.Text, "port voice: "+no) || got.Fix != "modprobe 8021q" {
			t.Errorf("the doctor says %+v", got)
		}
		r.host.SetNoVLANs(false)
		r.settle(time.Minute)
		if got, of := r.port("voice").Error, r.finding("ports"); got != "" || of.Level != "ok" {
			t.Errorf("with VLANs: %q, %+v", got, of)
		}
		r.apply(strings.Replace(withVoice(doc(1, 1), "5"), "parent: eth7", "parent: eth8", 1))
		r.settle(time.Hour)
		if got := r.port("voice").Error; !strings.HasPrefix(got, "no interface eth8, of which eth7.5 would be VLAN 5; ") {
			t.Errorf("without its parent: %q", got)
		}
		r.host.SetInterfaces(append(slices.Clone(r.node.d.interfaces()), netstate.Interface{Name: "eth8"})...)
		r.settle(0)
		if got := r.port("voice").Error; got != "" {
			t.Errorf("with its parent: %q", got)
		}
	})
}

// finding returns the first finding of one of doctor's checks.
func (r *rig) finding(check string) nodeapi.Finding {
	r.Helper()
	found, err := r.node.Doctor(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range found {
		if f.Check == check {
			return f
		}
	}
	r.Fatalf("no check %s: %+v", check, found)
	return nodeapi.Finding{}
}

func causes(cs []nodeapi.Cause) (text string) {
	for _, c := range cs {
		text += c.Text + " " + c.Error + "\n" + causes(c.Causes)
	}
	return text
}
