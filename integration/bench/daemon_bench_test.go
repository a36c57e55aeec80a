package bench

import (
	"fmt"
	"testing"
	"time"
)

// One config with 100 local networks, until each gateway answers DNS.
func BenchmarkHundredNetworks(b *testing.B) {
	const count = 100
	var ours, bare []time.Duration
	turns(b, func() {
		p := newPlace(b, 0)
		defer p.close()
		d, cfg := p.start(), newDoc()
		for n := range count {
			cfg.network(n + 1)
		}
		start := time.Now()
		d.apply(cfg)
		p.answers(gateways(count))
		ours = append(ours, time.Since(start))
		d.settled(count, 0)
		b.Logf("answers after %v, settled after %v", ours[len(ours)-1], time.Since(start))
	}, func() {
		p := newPlace(b, 0)
		defer p.close()
		f := p.floor()
		start := time.Now()
		for n := range count {
			f.network(n + 1)
		}
		p.answers(gateways(count))
		bare = append(bare, time.Since(start))
	})
	ratio(b, ours, bare)
}

// Veth adapters with 10 rules each on one network, until they are activated.
func BenchmarkAdapters(b *testing.B) {
	for _, count := range []int{10, 300} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			var ours, bare []time.Duration
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
				ours = append(ours, time.Since(start))
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
			ratio(b, ours, bare)
		})
	}
}
