package bench

import (
	"fmt"
	"testing"
	"time"
)

// One config with 100 local networks, until each gateway answers DNS, beside one ip -batch, one iptables-restore and
// dnsmasqs that start four at a time.
func BenchmarkHundredNetworks(b *testing.B) {
	const count = 100
	var own, bare []time.Duration
	var used []float64
	turns(b, func() {
		took, cpu := manyNetworks(b, count)
		own, used = append(own, took), append(used, cpu.Seconds())
	}, func() {
		p := newPlace(b, 0)
		defer p.close()
		f := p.floor()
		start := time.Now()
		f.batch(count)
		p.answers(gateways(count))
		bare = append(bare, time.Since(start))
	})
	ratio(b, own, bare)
	b.ReportMetric(middle(used, 0.5), "cpu-s")
}

// manyNetworks tells how long one config of local networks takes the daemon, until each gateway answers DNS, and how
// much processor time of its own, without its commands, until all are Present.
func manyNetworks(b *testing.B, count int) (took, used time.Duration) {
	b.Helper()
	p := newPlace(b, 0)
	defer p.close()
	d, cfg := p.start(), newDoc()
	for n := range count {
		cfg.network(n + 1)
	}
	start, before := time.Now(), ownCPU(b, d.cmd.Process.Pid)
	d.apply(cfg)
	p.answers(gateways(count))
	took = time.Since(start)
	d.settled(count, 0)
	used = ownCPU(b, d.cmd.Process.Pid) - before
	b.Logf("answers after %v, settled after %v, %v of processor time", took, time.Since(start), used)
	return took, used
}

// Veth adapters with 10 rules each on one network, until they are activated.
func BenchmarkAdapters(b *testing.B) {
	for _, count := range []int{10, 300} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			var own, bare []time.Duration
			turns(b, func() {
				p := newPlace(b, count)
				defer p.close()
				d, cfg := p.start(), newDoc()
				cfg.network(0)
				d.apply(cfg)
				d.settled(1, 0)
				for k, a := range p.apps {
					cfg.app(k, 0, a.Name, 10)
				}
				start := time.Now()
				d.apply(cfg)
				d.settled(1, count)
				own = append(own, time.Since(start))
			}, func() {
				p := newPlace(b, count)
				defer p.close()
				f := p.floor()
				f.network(0)
				start := time.Now()
				for k := range count {
					f.adapter(k, 0, 10)
				}
				bare = append(bare, time.Since(start))
			})
			ratio(b, own, bare)
		})
	}
}

// A thousand rules of one adapter changed, until the app is activated as wanted,
// beside one restore of as many rules.
func BenchmarkThousandRules(b *testing.B) {
	const rules = 1000
	var own, bare []time.Duration
	p := newPlace(b, 1)
	defer p.close()
	d, cfg := p.start(), newDoc()
	cfg.network(1)
	cfg.app(0, 1, p.apps[0].Name, rules)
	d.apply(cfg)
	d.settled(1, 1)
	q := newPlace(b, 1)
	defer q.close()
	f := q.floor()
	f.network(1)
	f.adapter(0, 1, rules)
	turn := 0
	turns(b, func() {
		turn++
		cfg.app(0, 1, p.apps[0].Name, rules-turn%7-1)
		start := time.Now()
		d.apply(cfg)
		d.activated(0)
		own = append(own, time.Since(start))
	}, func() {
		start := time.Now()
		f.rules(0, 1, rules-turn%7-1)
		bare = append(bare, time.Since(start))
	})
	ratio(b, own, bare)
}

// A hundred networks with three adapters each, deleted by one config, until nothing of
// them is left; and the same by the floor.
func BenchmarkDelete(b *testing.B) {
	const networks, apps = 100, 300
	var own, bare []time.Duration
	turns(b, func() {
		p := newPlace(b, apps)
		defer p.close()
		d, cfg := p.start(), newDoc()
		cfg.full(p, networks, apps)
		d.apply(cfg)
		d.settled(networks, apps)
		start := time.Now()
		d.apply(newDoc())
		d.settled(0, 0)
		d.until("removed all", func() bool { return p.links("es") == 0 })
		own = append(own, time.Since(start))
	}, func() {
		p := newPlace(b, apps)
		defer p.close()
		f := p.floor()
		for n := range networks {
			f.network(n + 1)
		}
		for k := range apps {
			f.adapter(k, k%networks+1, 10)
		}
		start := time.Now()
		f.remove()
		bare = append(bare, time.Since(start))
	})
	ratio(b, own, bare)
}

// What a daemon with a hundred networks and three hundred adapters weighs, and what it
// does while nothing happens.
func BenchmarkWeight(b *testing.B) {
	const networks, apps = 100, 300
	for range b.N {
		p := newPlace(b, apps)
		d, cfg := p.start(), newDoc()
		cfg.full(p, networks, apps)
		d.apply(cfg)
		d.settled(networks, apps)
		d.weigh()
		p.close()
	}
	b.ReportMetric(0, "ns/op")
}
