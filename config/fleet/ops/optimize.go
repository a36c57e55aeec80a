package ops

import (
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/optimize"
	"edgespan/config/layers/override"
)

// optimize assigns polarities, channels, golay codes and superframes.
func (ck *check) optimize(q Optimize) (WriteOutcome, error) {
	var faults override.WriteFaults
	for _, kind := range q.Kinds {
		if !slices.Contains(optimize.All, kind) {
			faults = append(faults, override.WriteFault{Rule: override.RuleRequest,
				Problem: config.Invalid(string(kind)), Expectation: "must be polarity, channel, golay or superframe"})
		}
	}
	if len(q.Kinds) == 0 {
		faults = append(faults, override.WriteFault{Rule: override.RuleRequest,
			Problem: "the write names no kind", Expectation: "must be polarity, channel, golay or superframe"})
	}
	was, err := ck.readTopologyLayers()
	if err != nil {
		return WriteOutcome{}, err
	}
	if was.doc == nil {
		faults = append(faults,
			override.WriteFault{Rule: override.RuleRequest, Problem: "no topology", Expectation: "must have one"})
	}
	if len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	channels, err := ck.channels()
	if err != nil {
		return WriteOutcome{}, err
	}
	r, wrong := optimize.Run(optimize.Input{
		Topology: was.topology, Auto: joinLayers(was.auto), Network: was.network, Node: joinLayers(was.own),
		Channels:  channels,
		ClearUser: q.ClearUser,
	}, q.Kinds...)
	if len(wrong) > 0 {
		for _, f := range wrong {
			faults = append(faults,
				override.WriteFault{Nodes: f.Nodes, Path: f.Path, Rule: RuleOptimize, Problem: f.Problem,
					Expectation: f.Expectation})
		}
		return WriteOutcome{}, refuse(faults)
	}
	now := was
	now.auto, now.own = splitByNode(r.Auto), splitByNode(r.Node)
	return ck.topologyOutcome(was, now, r.Notes)
}

// channels returns the channels that the controller's file allows; nil if it names none.
func (ck *check) channels() ([]int64, error) {
	v, err := ck.layer(fileLayer("controller", ""))
	if err != nil {
		return nil, err
	}
	text, _ := config.Lookup(v.Document, []string{"topologyParams", "enabledChannels"})
	list, _ := text.(string)
	var out []int64
	for _, word := range strings.Split(list, ",") {
		word = strings.TrimSpace(word)
		if len(word) == 1 && word >= "1" && word <= "4" {
			out = append(out, int64(word[0]-'0'))
		}
	}
	return out, nil
}
