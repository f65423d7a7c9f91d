"""Runs in a pod: a Service by name, the API server by name, a token of an audience, a volume."""
# ruff: noqa: T201 - what it prints is what the test reads

import base64
import json
import pathlib
import ssl

import httpx

account = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
with httpx.Client(transport=httpx.HTTPTransport(retries=4)) as client:  # rules take up to a second
    for url in ("http://web", "http://web.smoke.svc.cluster.local"):
        print(url, client.get(url).status_code)

trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
headers = {"Authorization": f"Bearer {(account / 'token').read_text()}"}
with httpx.Client(base_url="https://kubernetes.default.svc", verify=trust) as api:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = api.post(path, headers=headers, json=review)
    print("I am", answer.json()["status"]["userInfo"]["username"])
    print("namespaces", api.get("/api/v1/namespaces", headers=headers).status_code)

body = pathlib.Path("/var/run/kais/token").read_text().split(".")[1]
print("audience", json.loads(base64.urlsafe_b64decode(body + "=="))["aud"])

pathlib.Path("/data/written").write_text("by uid 10001")
print("volume ok")
