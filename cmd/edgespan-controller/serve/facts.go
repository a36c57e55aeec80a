package serve

import (
	"context"
	"net/http"

	"go.uber.org/zap"

	"edgespan/actors/configdb"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
)

// startFacts starts the actors of ConfigDB on the same store. They are a separate tree: its failures don't affect the
// nodes.
func (s *service) startFacts(mask []byte) (err error) {
	s.facts, err = configdb.Start(configdb.Options{
		Store: s.foundation.store, Log: s.log.Named(logFacts), Memory: int(s.o.FactsMemory) << 20, Key: mask,
		Keep: uint64(s.o.FactsVersions), KeepOwn: uint64(s.o.FactsNodeVersions), Quota: int64(s.o.FactsNodesMB) << 20,
		Load: s.foundation.work.Load(),
	})
	return err
}

// awaitFacts waits until ConfigDB is ready. Without it the controller still serves its nodes, and ConfigDB answers
// 503.
func (s *service) awaitFacts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.facts.Ready(ctx); err != nil {
		s.log.Error("facts unavailable: ConfigDB is starting", zap.Error(err))
	}
}

// checks are those of /readyz?verbose. ConfigDB alone does not make a controller unready: the fleet does not need it.
func (s *service) checks(ctx context.Context) []fleetapi.Check {
	fine := func(name string, err error) fleetapi.Check { return fleetapi.Check{Name: name, OK: err == nil} }
	return []fleetapi.Check{fine("fleet", s.fleet.Ready(ctx)), fine("store", s.foundation.store.CheckWritable()),
		fine("configdb", s.facts.Ready(ctx))}
}

// serveFacts makes the API's server also serve ConfigDB.
func (s *service) serveFacts(bodies *rest.Bodies, answers *rest.Answers) {
	ctx, end := context.WithCancel(context.Background())
	s.api.RegisterOnShutdown(end)
	opts := []configdbapi.Option{
		s.observed("configdb"),
		rest.WithBodies(bodies), rest.WithAnswers(answers),
		configdbapi.WithStored(s.foundation.stored, s.foundation.store.CheckSpace), rest.WithVersion(s.app.Version),
		rest.WithAudit(s.audit.record), rest.WithIntents(s.audit.intent), rest.WithEnd(ctx),
		configdbapi.WithEnvironmentOf(s.fleet.FactsEnvironment),
		rest.WithFailures(func(method, path string, err error) {
			s.log.Error("request failed", zap.String("method", method), zap.String("path", path), zap.Error(err))
		}),
	}
	if s.o.Auth == AuthNone {
		opts = append(opts, configdbapi.WithLocalHosts())
	}
	if s.o.FactsDirect {
		opts = append(opts, configdbapi.WithDirectNames())
	}
	if s.o.FactsProxied {
		opts = append(opts, configdbapi.WithTrustedProxy())
	}
	s.api.Handler = routes(s.api.Handler, configdbapi.Handler(s.facts, s.factsAuth(), opts...))
}

// factsSettings returns the flags of ConfigDB.
func (o *Options) factsSettings() []setting {
	return []setting{
		{"facts-memory-mb", &o.FactsMemory, "size of ConfigDB's cache of answers and documents, in megabytes",
			serving},
		{"facts-versions", &o.FactsVersions, "versions that ConfigDB keeps of each resource at each level; 0 for all",
			serving},
		{"facts-node-versions", &o.FactsNodeVersions,
			"versions that ConfigDB keeps of a node's own uploads, up to some MB; 0 for all", serving},
		{"facts-nodes-mb", &o.FactsNodesMB,
			"limit in megabytes of the nodes' own uploads in one environment of ConfigDB, newest versions only; 0 for no limit",
			serving},
		{"facts-direct-names", &o.FactsDirect,
			"accept a PUT to ConfigDB by the name of a resource directly, as tuning-box's last releases did, instead of a 308 " +
				"redirect to its ID", serving},
		{"facts-trusted-proxy", &o.FactsProxied,
			"ConfigDB is behind a proxy that sets X-Forwarded-Proto and X-Forwarded-Host", serving},
	}
}

// checkFacts refuses invalid values.
func (o *Options) checkFacts(no func(error)) {
	if o.FactsMemory < 1 {
		no(term.Invalid("--facts-memory-mb", int(o.FactsMemory), "1 or more"))
	}
	for name, n := range map[string]number{"facts-versions": o.FactsVersions, "facts-node-versions": o.FactsNodeVersions,
		"facts-nodes-mb": o.FactsNodesMB} {
		if n < 0 {
			no(term.Invalid("--"+name, int(n), "0 or more"))
		}
	}
}

// routes sends each request to its API.
func routes(fleet, facts http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if configdbapi.IsFactsPath(r.URL.Path) {
			facts.ServeHTTP(w, r)
			return
		}
		fleet.ServeHTTP(w, r)
	})
}
