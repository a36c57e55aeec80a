package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

// Bounds on the names that an error repeats.
const (
	maxNamed   = 80 // bytes of a name
	maxMatches = 10 // UUIDs to choose from
)

// named maps the kinds that have display names to their words in errors.
var named = map[string][2]string{"ni": {"network instance", "network instances"}, "app": {"app", "apps"},
	"tunnel": {"tunnel of network", "tunnels of networks"}}

// IsUUID reports whether a text has the form of a UUID: the API never takes it for a display name.
func IsUUID(text string) bool {
	_, err := uuid.Parse(text)
	return err == nil && len(text) == len(uuid.UUID{}.String())
}

// DisplayName returns the display name of a network or an app, from its spec, or from its status if the spec is gone.
func (r Resource) DisplayName() string {
	for _, part := range []any{r.Spec, r.Status} {
		name := ""
		switch p := part.(type) {
		case NetworkSpec:
			name = p.DisplayName
		case AppSpec:
			name = p.DisplayName
		case NetworkStatus:
			name = p.DisplayName
		case TunnelStatus:
			name = p.DisplayName
		case AppStatus:
			name = p.DisplayName
		case map[string]any: // as a client decodes it
			name, _ = p["displayName"].(string)
		}
		if name != "" {
			return name
		}
	}
	return ""
}

// SplitAdapter splits the id of an adapter, APP/INDEX. The name of an app may contain slashes; the index is a number.
func SplitAdapter(id string) (app, index string, ok bool) {
	at := strings.LastIndexByte(id, '/')
	if _, err := strconv.ParseUint(id[at+1:], 10, 31); at < 0 || err != nil {
		return id, "", false
	}
	return id[:at], id[at+1:], true
}

// identify returns the id for a name in a request: the UUID or display name of a network or an app, or of an adapter's
// app. A text in the form of a UUID is one, even if it is also a display name. An unknown name is ErrNotFound, an
// ambiguous one ErrConflict.
func identify(ctx context.Context, b Backend, kind, name string) (string, error) {
	if OfAdapter(kind) {
		app, index, ok := SplitAdapter(name)
		if !ok || IsUUID(app) {
			return name, nil
		}
		id, err := identify(ctx, b, "app", app)
		return id + "/" + index, err
	}
	if _, has := named[kind]; !has || IsUUID(name) {
		return name, nil
	}
	items, err := b.List(ctx, kind)
	var inc *rest.Incomplete
	if err != nil && !errors.As(err, &inc) {
		return "", err
	}
	id, err := called(items, kind, name)
	if inc != nil && errors.Is(err, rest.ErrNotFound) { // it may be among the missing ones
		return "", fmt.Errorf("%s %s: %w: %w", kind, printableName(name), rest.ErrBusy, inc)
	}
	return id, err
}

// OfAdapter reports whether resources of a kind have the ids of adapters.
func OfAdapter(kind string) bool { return kind == "adapter" || kind == "lease" || kind == "dns" }

// called returns the id of the one item with a display name.
func called(items []Resource, kind, name string) (string, error) {
	var ids []string
	for _, it := range items {
		if it.DisplayName() == name {
			ids = append(ids, it.ID)
		}
	}
	short := printableName(name)
	switch n := len(ids); {
	case n == 0 || name == "":
		return "", fmt.Errorf("%s %s: %w: no %s has this UUID or display name: edgespan get %s lists them", kind, short,
			rest.ErrNotFound, named[kind][0], kind)
	case n > maxMatches:
		return "", ambiguous(kind, short, n, strings.Join(ids[:maxMatches], ", ")+fmt.Sprintf(" and %d more", n-maxMatches))
	case n > 1:
		return "", ambiguous(kind, short, n, strings.Join(ids, ", "))
	}
	return ids[0], nil
}

// printableName returns a name for an error: truncated, and quoted if it contains control characters.
func printableName(name string) string {
	short := config.Truncate(name, maxNamed)
	if strings.ContainsFunc(short, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return config.Quote(short)
	}
	return short
}

// ambiguousError reports a name that several objects have.
type ambiguousError struct{ text string }

func (e *ambiguousError) Error() string { return e.text }
func (e *ambiguousError) Unwrap() error { return rest.ErrConflict }

func ambiguous(kind, name string, n int, ids string) error {
	return &ambiguousError{fmt.Sprintf("%s %s: matches %d %s: use one of UUIDs %s", kind, name, n, named[kind][1], ids)}
}

// identified resolves KIND/NAME to KIND/ID. A kind alone, or one without display names, is returned unchanged.
// app/NAME/INDEX is an adapter if an app has this name.
func identified(ctx context.Context, b Backend, of string) (string, error) {
	kind, name, _ := strings.Cut(of, "/")
	if name == "" {
		return of, nil
	}
	if app, index, ok := SplitAdapter(name); ok && kind == "app" {
		if IsUUID(app) {
			return of, nil
		}
		id, err := identify(ctx, b, kind, app)
		if !errors.Is(err, rest.ErrNotFound) {
			return kind + "/" + id + "/" + index, err
		}
	}
	id, err := identify(ctx, b, kind, name)
	return kind + "/" + id, err
}
