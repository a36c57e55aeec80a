package netns_test

import (
	"strings"
	"testing"
	"time"
)

func inAYear() time.Time { return time.Now().AddDate(1, 0, 0) }

// Each fault has a sentence of its own within 10 s, and the tunnel comes up by itself when it is mended.
func TestIPsecSaysWhatIsWrong(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *ipsecLab){
		"wrong key": func(t *testing.T, l *ipsecLab) {
			l.startSwan(swanPSK("another secret", "", ""))
			l.put(l.vpn(1))
			l.fails(time.Now(), "wrong pre-shared key", ipsecPeer)
			l.swan.load(swanPSK(ipsecSecret, "", ""))
		},
		"no IKE proposal": func(t *testing.T, l *ipsecLab) {
			l.startSwan(swanPSK(ipsecSecret, "proposals = aes256-sha512-modp4096", ""))
			v := l.vpn(1)
			v.IPsec.IKE = "aes128-sha256-ecp256, aes128-sha256-modp2048"
			l.put(v)
			l.fails(time.Now(), "no proposal chosen", "IKE proposals")
			l.swan.load(swanPSK(ipsecSecret, "", ""))
		},
		"no ESP proposal": func(t *testing.T, l *ipsecLab) {
			l.startSwan(swanPSK(ipsecSecret, "", "esp_proposals = aes192-sha512"))
			v := l.vpn(1)
			v.IPsec.ESP = "aes128gcm16"
			l.put(v)
			l.fails(time.Now(), "no proposal chosen", "ESP proposals")
			l.swan.load(swanPSK(ipsecSecret, "", ""))
		},
		"other subnets": func(t *testing.T, l *ipsecLab) {
			l.startSwan(swanPSK(ipsecSecret, "", ""))
			l.swan.load(swanPSK(ipsecSecret, "", "local_ts = 10.77.0.0/24"))
			l.put(l.vpn(1))
			l.fails(time.Now(), "traffic selectors", ipsecPeer)
			l.swan.load(swanPSK(ipsecSecret, "", ""))
		},
		"silent": func(t *testing.T, l *ipsecLab) {
			l.startSwan(swanPSK(ipsecSecret, "", ""))
			l.swan.kill()
			l.put(l.vpn(1))
			l.fails(time.Now(), "does not answer", ipsecPeer)
			l.startSwan(swanPSK(ipsecSecret, "", ""))
		},
		"no way": func(t *testing.T, l *ipsecLab) {
			l.startSwan(swanPSK(ipsecSecret, "", ""))
			l.node.Exec(t, "ip", "route", "replace", "unreachable", "default", "table", "50003")
			l.put(l.vpn(1))
			l.fails(time.Now(), "no uplink", ipsecPeer)
			l.choose("up0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newIPsecLab(t)
			test(t, l)
			l.up()
			l.carries()
		})
	}
}

// What a peer's name leads to is looked up by the node: without a resolver the status says so.
func TestIPsecSaysThatANameIsUnknown(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	v := l.vpn(1)
	v.IPsec.Address = "vpn.invalid"
	l.put(v)
	l.fails(time.Now(), "vpn.invalid", "can't be resolved")
}

func TestIPsecSaysWhatIsWrongWithCertificates(t *testing.T) {
	ago := time.Now().AddDate(0, -1, 0)
	node := "auth = pubkey\n id = node.example"
	for name, test := range map[string]func(*testing.T, *ipsecLab, *ipsecCA){
		"peer expired": func(t *testing.T, l *ipsecLab, ca *ipsecCA) {
			l.startSwanWith(ca, ago, swanCert(node, ""))
			l.put(l.certified(ca, inAYear()))
			l.fails(time.Now(), "the certificate of the peer", "has expired on "+ago.Format(time.DateOnly))
		},
		"node expired": func(t *testing.T, l *ipsecLab, ca *ipsecCA) {
			l.startSwanWith(ca, inAYear(), swanCert(node, ""))
			l.put(l.certified(ca, ago))
			l.fails(time.Now(), "the certificate of this node has expired on "+ago.Format(time.DateOnly))
		},
		"peer not trusted": func(t *testing.T, l *ipsecLab, ca *ipsecCA) {
			l.startSwanWith(ca, inAYear(), swanCert(node, ""))
			v := l.certified(ca, inAYear())
			v.IPsec.Remote.CA = newIPsecCA(t).pem
			l.put(v)
			l.fails(time.Now(), "the certificate of the peer", "not trusted")
		},
		"node not trusted": func(t *testing.T, l *ipsecLab, ca *ipsecCA) {
			l.startSwanWith(ca, inAYear(), swanCert(node, ""))
			v := l.certified(newIPsecCA(t), inAYear())
			v.IPsec.Remote.CA = ca.pem
			l.put(v)
			l.fails(time.Now(), "does not trust the certificate of this node")
		},
		"another identity": func(t *testing.T, l *ipsecLab, ca *ipsecCA) {
			l.startSwanWith(ca, inAYear(), swanCert(node, ""))
			v := l.certified(ca, inAYear())
			v.IPsec.Remote.ID = "other.example"
			l.put(v)
			l.fails(time.Now(), "or expects another identity", "other.example")
		},
		"wrong password": func(t *testing.T, l *ipsecLab, ca *ipsecCA) {
			l.startSwanWith(ca, inAYear(), swanEAP)
			v := l.eap(ca)
			v.IPsec.Local.Secret = "wrong"
			l.put(v)
			l.fails(time.Now(), "EAP authentication failed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newIPsecLab(t), newIPsecCA(t))
		})
	}
}

// What is wrong with a peer that calls is told by the end that listens. A stranger on the internet changes nothing of what
// is told, neither before nor after it.
func TestIPsecSaysWhatIsWrongWithItsCaller(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	const stranger = "198.18.0.77"
	l.peer.Exec(t, "ip", "addr", "add", stranger+"/24", "dev", "eth0")
	call := func(from, secret string) bool {
		conf := swanPSK(secret, "remote_addrs = 198.18.1.2", "")
		l.swan.load(strings.Replace(conf, "local_addrs = "+ipsecPeer, "local_addrs = "+from, 1))
		_, err := l.swan.swanctl("--initiate", "--child", "lan", "--timeout", "5")
		return err == nil
	}
	said := ""
	strangers := func() {
		t.Helper()
		done := make(chan bool)
		go func() {
			defer close(done)
			for range 5 {
				if call(stranger, "of a stranger") {
					t.Error("a stranger connects")
				}
				time.Sleep(300 * time.Millisecond)
			}
		}()
		for calling := true; calling; time.Sleep(20 * time.Millisecond) {
			select {
			case <-done:
				calling = false
			default:
			}
			if s := l.status(); s.Error != said {
				t.Fatalf("while a stranger calls the status says %q, not %q", s.Error, said)
			}
		}
	}
	l.startSwan(swanPSK(ipsecSecret, "remote_addrs = 198.18.1.2", ""))
	v := l.vpn(1)
	v.IPsec.Listen, v.IPsec.Port = true, 1500 // where the peer doesn't answer: it can only call
	l.put(v)
	l.fails(time.Now(), "does not answer", ipsecPeer)
	said = l.status().Error
	strangers()
	if call(ipsecPeer, "another secret") {
		t.Error("a peer with another key connects")
	}
	l.fails(time.Now(), "wrong pre-shared key", ipsecPeer)
	said = l.status().Error
	strangers()
	if !call(ipsecPeer, ipsecSecret) {
		t.Error("the peer does not connect")
	}
	if s := l.up(); s.Error != "" || len(s.Peers) == 0 || s.Peers[0].Error != "" {
		t.Errorf("up, and says %+v", s)
	}
	said = ""
	strangers()
}
