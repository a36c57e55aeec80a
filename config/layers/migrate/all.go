package migrate

import (
	"fmt"
	"regexp"
	"strings"

	"edgespan/config"
)

// all lists the migrations, older versions first. Add a new one after the others of its version's family, with a test
// on a real file.
//
// Those of RELEASE_M follow from the base files of these releases: a key disappeared in the release in which the same
// value appeared at another path.
var all = []Migration{
	{
		Version: "RELEASE_M46", Kind: Node,
		What: "Everything of statsAgentParams.nmsPublisherParams but zmqSndHwm, and statsAgentParams.statsBlacklist, moves " +
			"to statsAgentParams.publisherParams; zmqSndHwm to statsAgentParams.endpointParams.nmsPublisherParams.",
		do: func(w *work) {
			const old = "statsAgentParams.nmsPublisherParams"
			w.move(old+".zmqSndHwm", "statsAgentParams.endpointParams.nmsPublisherParams.zmqSndHwm")
			w.move(old, "statsAgentParams.publisherParams")
			w.move("statsAgentParams.statsBlacklist", "statsAgentParams.publisherParams.statsBlacklist")
		},
	},
	{
		Version: "RELEASE_M60", Kind: Node,
		What: "statsAgentParams.sources.openr.enabled becomes statsAgentParams.collectors.openrStatsEnabled; the source's " +
			"zmq_url goes, since the collector needs none.",
		do: func(w *work) {
			w.move("statsAgentParams.sources.openr.enabled", "statsAgentParams.collectors.openrStatsEnabled")
			w.drop("statsAgentParams.sources.openr")
		},
	},
	{
		Version: "RELEASE_M78", Kind: Node,
		What: "radioParamsBase.wsecParams.eapolParams moves to the top, eapolParams.",
		do: func(w *work) {
			w.move("radioParamsBase.wsecParams.eapolParams", "eapolParams")
		},
	},
	{
		Version: "RELEASE_M79", Kind: Node,
		What: "The list of prefixes envParams.OPENR_IFACE_PREFIXES becomes the expression " +
			"envParams.OPENR_IFACE_REGEX_INCLUDE.",
		do: func(w *work) {
			w.convert("envParams.OPENR_IFACE_PREFIXES", "envParams.OPENR_IFACE_REGEX_INCLUDE", prefixesToRegex)
		},
	},
}

// prefixesToRegex converts "terra" to "terra.*" and "terra,nic1" to "(terra|nic1).*".
func prefixesToRegex(v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("invalid type %s: must be a string with a list of prefixes", config.KindOf(v))
	}
	if s == "" {
		return "", nil
	}
	parts := strings.Split(s, ",")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(strings.TrimSpace(p))
	}
	if len(parts) == 1 {
		return parts[0] + ".*", nil
	}
	return "(" + strings.Join(parts, "|") + ").*", nil
}
