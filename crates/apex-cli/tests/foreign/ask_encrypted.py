"""Asks the dashboard over TLS, trusting one certificate only. Arguments: the certificate, the address, the token."""

import ssl
import sys
import urllib.error
import urllib.request

certificate, address, token = sys.argv[1:]


def status(trusted, headers):
    request = urllib.request.Request(f"https://{address}/api/sessions", headers=headers)
    try:
        with urllib.request.urlopen(request, context=trusted, timeout=240) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


own = ssl.create_default_context(cafile=certificate)
assert status(own, {"Authorization": f"Bearer {token}"}) == 200
assert status(own, {}) == 401
try:
    status(ssl.create_default_context(), {})
except urllib.error.URLError as error:
    assert isinstance(error.reason, ssl.SSLCertVerificationError), error
else:
    raise AssertionError("a certificate that nobody signed was trusted")
