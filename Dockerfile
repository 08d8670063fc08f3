# An image with the static program and its licences, and nothing else. Build it with scripts/build-image.
FROM scratch
COPY namegate /usr/bin/namegate
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/namegate/
ENTRYPOINT ["/usr/bin/namegate"]
