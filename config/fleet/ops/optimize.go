package ops

import (
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/optimize"
	"edgespan/config/layers/override"
)

// optimize assigns polarities, channels, golay codes and superframes.
func (j *check) optimize(q Optimize) (WriteOutcome, error) {
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
	was, err := j.chart()
	if err != nil {
		return WriteOutcome{}, err
	}
	if was.doc == nil {
		faults = append(faults,
			override.WriteFault{Rule: override.RuleRequest, Problem: "no topology", Expectation: "must have one"})
	}
	if len(faults) > 0 {
		return WriteOutcome{}, refused(faults)
	}
	channels, err := j.channels()
	if err != nil {
		return WriteOutcome{}, err
	}
	r, wrong := optimize.Run(optimize.Input{
		Topology: was.topology, Auto: files(was.auto), Network: was.network, Node: files(was.own), Channels: channels,
		ClearUser: q.ClearUser,
	}, q.Kinds...)
	if len(wrong) > 0 {
		for _, f := range wrong {
			faults = append(faults,
				override.WriteFault{Nodes: f.Nodes, Path: f.Path, Rule: RuleOptimize, Problem: f.Problem,
					Expectation: f.Expectation})
		}
		return WriteOutcome{}, refused(faults)
	}
	is := was
	is.auto, is.own = splitByNode(r.Auto), splitByNode(r.Node)
	return j.charted(was, is, r.Notes)
}

// channels returns the channels that the controller's file allows; nil if it names none.
func (j *check) channels() ([]int64, error) {
	v, err := j.layer(fileLayer("controller", ""))
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
