package netns_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"edgespan/integration/netns"
	"edgespan/platform/nft"

	"github.com/google/go-cmp/cmp"
)

// One rule of every form that our tables have.
var bridgeWords = []string{
	"chain a1 {",
	"ether saddr != 02:16:3e:01:00:01 drop",
	"ether type ip ip saddr 10.1.0.2 accept",
	"ether type ip ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
	"ether type arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4 arp saddr ether 02:16:3e:01:00:01 arp saddr ip 0.0.0.0 arp daddr ip 10.1.0.2 accept",
	"ether type ip udp dport 67 goto d1",
	"ether type ip ip daddr 10.1.0.1 udp dport 53 limit rate over 128/second burst 512 packets drop",
	"ether type ip6 drop",
	"drop",
	"}",
	"chain d1 {",
	"ether type ip ip saddr 10.1.0.2 udp sport 68 @th,64,24 0x010106 @th,256,80 0x02163e010001 accept",
	"drop",
	"}",
	"chain frames {",
	"type filter hook prerouting priority -300; policy accept;",
	`iifname "es1a1" goto a1`,
	`iifname "es1a*" drop`,
	"}",
}

// What netlink is told is what the nft command makes of the same words.
func TestABridgeTableIsWhatNftMakesOfIt(t *testing.T) {
	ours, theirs := netns.New(t), netns.New(t)
	c, err := nft.Open(ours.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Replace("es1", bridgeWords); err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/table"
	if err := os.WriteFile(file, []byte("table bridge es1 {\n"+strings.Join(bridgeWords, "\n")+"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs.Exec(t, "nft", "-f", file)
	list := []string{"nft", "list", "table", "bridge", "es1"}
	want, got := theirs.Exec(t, list...), ours.Exec(t, list...)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-nft +ours):\n%s", d)
	}
}

func TestABridgeTableIsReplacedAndReadBack(t *testing.T) {
	ns := netns.New(t)
	c, err := nft.Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	gen := func() uint32 {
		g, err := c.Generation()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	texts := map[string]bool{}
	tables := func() string {
		all, err := c.Tables()
		if err != nil {
			t.Fatal(err)
		}
		return all["es1"]
	}
	begin := gen()
	if err := c.Delete("es1"); err != nil {
		t.Fatalf("delete what is not there: %v", err)
	}
	for i := range 2 { // twice leaves the same
		if err := c.Replace("es1", bridgeWords); err != nil {
			t.Fatal(err)
		}
		if texts[tables()] = true; len(texts) != 1 || tables() == "" {
			t.Fatalf("write %d reads as %q", i, tables())
		}
	}
	if gen() == begin {
		t.Error("the generation is the same after writes")
	}
	still := gen()
	if tables(); gen() != still {
		t.Error("a look changes the generation")
	}
	for _, argv := range []string{"add rule bridge es1 a1 accept", "add chain bridge es1 more", "flush chain bridge es1 a1", "delete chain bridge es1 more", "flush table bridge es1"} {
		ns.Exec(t, append([]string{"nft"}, strings.Fields(argv)...)...)
		if n := len(texts); argv != "delete chain bridge es1 more" {
			if texts[tables()] = true; len(texts) != n+1 {
				t.Errorf("after %s the table reads as before: %s", argv, tables())
			}
		}
	}
	// A batch that fails leaves what was there.
	before := tables()
	if err := c.Replace("es1", []string{"chain a {", "goto nowhere", "}"}); err == nil || tables() != before {
		t.Errorf("a jump to nowhere: err %v, table %q, want %q", err, tables(), before)
	}
	if err := c.Delete("es1"); err != nil || tables() != "" {
		t.Errorf("delete: %v, left %q", err, tables())
	}
}

// A table of a thousand adapters is one transaction.
func TestABigBridgeTable(t *testing.T) {
	ns := netns.New(t)
	c, err := nft.Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var lines []string
	for i := range 1000 {
		for _, l := range bridgeWords[:8] {
			lines = append(lines, strings.Replace(l, "chain a1", fmt.Sprintf("chain a%d", i), 1))
		}
	}
	if err := c.Replace("es1", lines); err != nil {
		t.Fatal(err)
	}
	all, err := c.Tables()
	if n := strings.Count(all["es1"], ", 6 rules, "); err != nil || n != 1000 {
		t.Errorf("%d chains of 6 rules, err %v", n, err)
	}
}
