package node

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
)

// crashed records and reports that an actor has crashed.
func (d *deps) crashed(id string, times int, why string, restarts time.Duration) {
	d.work.Crashed(id)
	d.census.Crashed(id, times, why, restarts)
	e := event(nodeapi.EventCrash, "actor/"+id, "", fmt.Sprintf("crashed, restarts in %v", restarts))
	e.Error = why
	d.recordEvent(e)
}

// props returns the Props of one actor: new ones for each spawn, with the middleware that every actor has.
func (d *deps) props(make func() actor.Actor) *actor.Props {
	return d.propsOf(false, make)
}

// vital returns the Props of an actor that the node can't run without: its crash ends the process, systemd restarts it,
// and traffic continues unaffected.
func (d *deps) vital(make func() actor.Actor, more ...actor.ReceiverMiddleware) *actor.Props {
	return d.propsOf(true, make, append([]actor.ReceiverMiddleware{supervise.Vital(d.fail)}, more...)...)
}

func (d *deps) propsOf(vital bool, make func() actor.Actor, more ...actor.ReceiverMiddleware) *actor.Props {
	options := append([]actor.PropsOption{
		actor.WithSupervisor(d.strategy), actor.WithReceiverMiddleware(supervise.Lifecycle(d.of(logActors))),
	}, d.census.Options(vital, d.strategy.Forget, more...)...)
	return actor.PropsFromProducer(make, options...)
}
