package serve

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/controller"
	"edgespan/config/fleet/nodeproto"
	"edgespan/platform/pki"
)

// issuer adapts platform/pki to the actors' interface.
type issuer struct {
	authority *pki.Authority
	revoked   *pki.Revocations
}

// Redeem spends a join token and issues a certificate to the node.
func (i issuer) Redeem(now time.Time, t controller.Token, j nodeproto.Join) (controller.Token, error) {
	node, err := uuid.Parse(j.Node)
	if err != nil {
		return controller.Token{}, errors.New("redeem token: invalid node ID: must be a UUID")
	}
	kept := pki.JoinToken{Hash: t.Hash, Name: t.Name, Expires: t.Expires}
	if t.Used != nil {
		used, err := uuid.Parse(t.Used.Node)
		if err != nil {
			return controller.Token{}, errors.New("redeem token: invalid node ID in the token's record: must be a UUID")
		}
		kept.Used = &pki.TokenUse{Node: used, Key: t.Used.Key, At: t.Used.At}
	}
	kept, err = kept.Redeem(now, j.Token, j.Name, pki.Request{Node: node, Key: j.Key})
	if err != nil {
		return controller.Token{}, err
	}
	t.Used = &controller.TokenUse{Node: kept.Used.Node.String(), Key: kept.Used.Key, At: kept.Used.At}
	return t, nil
}

// JoinTokenHash returns the hash that is stored of a join token.
func (issuer) JoinTokenHash(text string) (string, error) { return pki.JoinTokenHash(text) }

// NewJoinToken creates a token for one name.
func (issuer) NewJoinToken(name string, expires time.Time) (text, hash string, err error) {
	text, kept, err := pki.NewJoinToken(name, expires)
	return text, kept.Hash, err
}

// NewOperatorToken creates a token for a person or a program.
func (issuer) NewOperatorToken(name, role string, expires time.Time) (text, hash string, err error) {
	r, err := pki.ParseRole(role)
	if err != nil {
		return "", "", err
	}
	text, kept, err := pki.NewOperatorToken(name, r, expires)
	return text, kept.Hash, err
}

// Pin returns the value of --ca-sha256 for joining nodes.
func (i issuer) Pin() string { return i.authority.Pin().String() }

// Revoke replaces the list of revoked certificates.
func (i issuer) Revoke(list []controller.Revocation) error {
	out := make([]pki.Revocation, len(list))
	for n, r := range list {
		out[n] = pki.Revocation(r)
	}
	return i.revoked.Replace(out)
}
