package optimize

import (
	"cmp"
	"math"
	"slices"
)

// The model of the original (reference §1.17): what a radio receives from a link that is not its own, in dB, by the
// distance and by the angles between both antennas' directions and the path.
const (
	farthest   = 500.0 // metres beyond which nothing is received
	weakest    = -80.0 // dB below which nothing is received
	earth      = 6371008.8
	metreOfLat = earth * math.Pi / 180
)

// arrayLoss is the loss of an antenna at an angle from its direction, in degrees.
func arrayLoss(angle float64) float64 {
	switch {
	case angle <= 5:
		return 0
	case angle <= 10:
		return -13
	case angle <= 16:
		return -17
	case angle <= 90:
		return -20
	}
	return -45
}

// strength is the interference of one sender at one receiver, 1 at -60 dB, 0 if nothing is received.
func strength(metres, senderAngle, receiverAngle float64) float64 {
	if metres <= 0 || metres > farthest {
		return 0
	}
	dB := -8 - 20*math.Log10(metres) - 0.036*metres + arrayLoss(senderAngle) + arrayLoss(receiverAngle)
	if dB < weakest {
		return 0
	}
	return math.Pow(10, (dB+60)/10)
}

// end is one end of a link.
type end struct{ radio, peer, link int }

// interference returns how strongly groups interfere when they share a colour, by pair of groups. It is symmetric,
// because both ends of a link send and receive in turns. Links for which apart is true do not count.
func (r *run) interference(apart func(a, b int) bool) []map[int]float64 {
	out := make([]map[int]float64, len(r.net.groups))
	for i := range out {
		out[i] = map[int]float64{}
	}
	polarities := make([]int, len(r.net.radios))
	for i, radio := range r.net.radios {
		now, known := r.view.now(radio.node, radio.mac, polarity)
		if !known {
			now = int64(radio.polarity)
		}
		polarities[i] = parityOf(now)
	}
	at := r.endsBySite()
	for a, b := range r.net.near() {
		metres := r.net.distance(a, b)
		for _, x := range at[a] {
			for _, y := range at[b] {
				g, h := r.net.radios[x.radio].group, r.net.radios[y.radio].group
				if g == h || polarities[x.radio]+polarities[y.radio] != odd+even || polarities[x.radio] == 0 ||
					polarities[y.radio] == 0 || apart(x.link, y.link) {
					continue
				}
				s := strength(metres, r.net.offAxisDegrees(x, b), r.net.offAxisDegrees(y, a))
				if s > 0 {
					out[g][h] += s
					out[h][g] += s
				}
			}
		}
	}
	return out
}

func (r *run) endsBySite() [][]end {
	at := make([][]end, len(r.net.sites))
	for i, l := range r.net.links {
		for side, radio := range l.ends {
			s := r.net.radios[radio].site
			at[s] = append(at[s], end{radio, l.ends[1-side], i})
		}
	}
	return at
}

// near yields the pairs of sites, the lower number first, that may interfere.
func (n *network) near() func(func(int, int) bool) {
	return func(yield func(int, int) bool) {
		var request []int
		for i, s := range n.sites {
			if s.Located {
				request = append(request, i)
			}
		}
		slices.SortFunc(request, func(a, b int) int {
			return cmp.Or(cmp.Compare(n.sites[a].Latitude, n.sites[b].Latitude), a-b)
		})
		for i, a := range request {
			for _, b := range request[i+1:] {
				if (n.sites[b].Latitude-n.sites[a].Latitude)*metreOfLat > farthest {
					break
				}
				east := (n.sites[b].Longitude - n.sites[a].Longitude) * math.Cos(radians(n.sites[a].Latitude)) * metreOfLat
				if math.Abs(east) > 2*farthest {
					continue // cheaper than a distance, and coarse
				}
				if !yield(min(a, b), max(a, b)) {
					return
				}
			}
		}
	}
}

// distance returns the distance along the ground, in metres.
func (n *network) distance(a, b int) float64 {
	x, y := n.sites[a], n.sites[b]
	lat, lon := radians(y.Latitude-x.Latitude)/2, radians(y.Longitude-x.Longitude)/2
	h := math.Sin(lat)*math.Sin(lat) +
		math.Cos(radians(x.Latitude))*math.Cos(radians(y.Latitude))*math.Sin(lon)*math.Sin(lon)
	return 2 * earth * math.Asin(math.Min(1, math.Sqrt(h)))
}

// offAxisDegrees returns the angle between a site and an end's direction to its peer, in degrees.
func (n *network) offAxisDegrees(e end, site int) float64 {
	from, peer := n.radios[e.radio].site, n.radios[e.peer].site
	if from == peer || !n.sites[peer].Located || n.distance(from, peer) == 0 {
		return 0 // the direction is unknown: assume the worst
	}
	d := math.Abs(n.bearing(from, site) - n.bearing(from, peer))
	return math.Min(d, 360-d)
}

// bearing returns the direction from one site to another, clockwise from north, in degrees.
func (n *network) bearing(a, b int) float64 {
	x, y := n.sites[a], n.sites[b]
	lat1, lat2, lon := radians(x.Latitude), radians(y.Latitude), radians(y.Longitude-x.Longitude)
	east := math.Sin(lon) * math.Cos(lat2)
	north := math.Cos(lat1)*math.Sin(lat2) - math.Sin(lat1)*math.Cos(lat2)*math.Cos(lon)
	return math.Mod(math.Atan2(east, north)*180/math.Pi+360, 360)
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }
