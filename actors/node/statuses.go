package node

import (
	"edgespan/actors/node/api"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// adoptStatuses makes pub the owner of every adapter status in a network's scope, regardless of the previous publisher,
// and withdraws those whose config is gone.
func adoptStatuses(t *api.Topics, pub *pubsub.Publisher[netinst.AppAdapterStatus], scope string) {
	for _, ref := range pub.AdoptAll(scope) {
		if _, desired := t.AdapterConfig.Get(scope, ref.Key); !desired {
			must(pub.Unpublish(scope, ref.Key))
		}
	}
}
